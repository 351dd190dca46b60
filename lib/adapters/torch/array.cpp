// SPDX-License-Identifier: BSD-3-Clause
// Checks, packing and unpacking.
#include "lib/adapters/torch/array.hpp"

namespace weft::torch_adapter {
namespace {

// The weft type of a PyTorch type.
c10::optional<DataType> same_type(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return DataType::uint8;
    case at::kChar:
      return DataType::int8;
    case at::kShort:
      return DataType::int16;
    case at::kInt:
      return DataType::int32;
    case at::kLong:
      return DataType::int64;
    case at::kHalf:
      return DataType::fp16;
    case at::kBFloat16:
      return DataType::bf16;
    case at::kFloat:
      return DataType::fp32;
    case at::kDouble:
      return DataType::fp64;
    default:
      return c10::nullopt;
  }
}

c10::optional<ReduceOp> same_op(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::prod;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    default:
      return c10::nullopt;
  }
}

Reduced reduced_bool(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR:
      return {DataType::uint8, ReduceOp::max};
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND:
      return {DataType::uint8, ReduceOp::min};
    default:
      TORCH_CHECK(false, "weft: booleans are reduced by SUM, MAX, BOR (or) and by PRODUCT, MIN, ",
                  "BAND (and) only");
  }
}

// True if the tensor's memory holds its elements contiguously and in order.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

Moved moved(at::ScalarType type) {
  if (const c10::optional<DataType> same = same_type(type)) return {*same, 1};
  return {DataType::uint8, c10::elementSize(type)};
}

Reduced reduced(at::ScalarType type, const c10d::ReduceOp& op) {
  if (type == at::kBool) return reduced_bool(op);
  const c10::optional<DataType> weft_type = same_type(type);
  TORCH_CHECK(
      weft_type, "weft: cannot reduce tensors of ", c10::toString(type),
      ": uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64 and bool it can");
  const c10::optional<ReduceOp> weft_op = same_op(op);
  TORCH_CHECK(weft_op, "weft: cannot reduce by this operation: SUM, AVG, PRODUCT, MIN, MAX it can");
  return {*weft_type, *weft_op};
}

Array::Array(const char* operation, at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.layout() == at::kStrided && !tensor.is_quantized(), "weft: ", operation,
                " takes dense tensors; call to_dense() or dequantize() first");
    TORCH_CHECK(tensor.device().is_cpu(), "weft: ", operation, " takes tensors of the CPU, not of ",
                tensor.device().str(), "; call cpu() first");
    TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), "weft: ", operation,
                " takes tensors of one type, not of ", c10::toString(tensors[0].scalar_type()),
                " and ", c10::toString(tensor.scalar_type()));
    tensors_.push_back(tensor.detach());
  }
}

bool Array::is_own() const { return tensors_.size() == 1 && is_plain(tensors_[0]); }

Array Array::to_read(const char* operation, at::TensorList tensors) {
  Array array(operation, tensors);
  if (array.is_own()) {
    array.flat_ = array.tensors_[0];
    return array;
  }
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : array.tensors_)
    parts.push_back(tensor.resolve_conj().resolve_neg().reshape(-1).contiguous());
  array.flat_ = parts.empty() ? at::empty(0) : parts.size() == 1 ? parts[0] : at::cat(parts);
  return array;
}

Array Array::to_write(const char* operation, at::TensorList tensors) {
  Array array(operation, tensors);
  if (array.is_own()) {
    array.flat_ = array.tensors_[0];
    return array;
  }
  int64_t total = 0;
  for (const at::Tensor& tensor : array.tensors_) total += tensor.numel();
  array.flat_ =
      array.tensors_.empty() ? at::empty(0) : at::empty(total, array.tensors_[0].options());
  return array;
}

std::vector<size_t> counts_of(at::TensorList tensors) {
  std::vector<size_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(static_cast<size_t>(tensor.numel()));
  return counts;
}

void Array::unpack() const {
  if (is_own()) return;
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors_) {
    tensor.copy_(flat_.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

}  // namespace weft::torch_adapter
