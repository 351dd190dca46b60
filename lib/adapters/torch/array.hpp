// SPDX-License-Identifier: BSD-3-Clause
// Tensors as weft's collectives take them: one array and a type. A single contiguous tensor is its
// own array; others are packed into a new one, and unpacked when the call is done.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "weft/collective_types.hpp"

namespace weft::torch_adapter {

// The type in calls that only move elements: their own if weft has it, otherwise bytes.
struct Moved {
  DataType type = DataType::uint8;
  size_t per_element = 1;
};
Moved moved(at::ScalarType type);

// The type and operation of a reduction. Booleans are bytes: their sum is "or", their product
// "and". Throws if weft does not support the type or the operation; the text lists the supported
// ones.
struct Reduced {
  DataType type = DataType::fp32;
  ReduceOp op = ReduceOp::sum;
};
Reduced reduced(at::ScalarType type, const c10d::ReduceOp& op);

std::vector<size_t> counts_of(at::TensorList tensors);  // elements of each

// Copies are the same array, and keep it.
class Array {
 public:
  // These throw, and name `operation`, if a tensor is not a dense one in the memory of the host, or
  // the tensors are not all of one type.
  static Array to_read(const char* operation, at::TensorList tensors);
  static Array to_write(const char* operation, at::TensorList tensors);
  static Array to_update(const char* operation, at::TensorList tensors) {
    return to_read(operation, tensors);
  }

  void* data() const { return flat_.data_ptr(); }
  size_t size() const { return static_cast<size_t>(flat_.numel()); }  // elements of PyTorch
  size_t bytes() const { return flat_.nbytes(); }
  at::ScalarType type() const { return flat_.scalar_type(); }
  std::vector<size_t> counts() const { return counts_of(tensors_); }
  // Writes the array back into the tensors, if it is not theirs.
  void unpack() const;

 private:
  Array(const char* operation, at::TensorList tensors);
  bool is_own() const;

  std::vector<at::Tensor> tensors_;
  at::Tensor flat_;
};

}  // namespace weft::torch_adapter
