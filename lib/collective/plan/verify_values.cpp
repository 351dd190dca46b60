// SPDX-License-Identifier: BSD-3-Clause
// The symbolic execution of single steps for verify().
#include "lib/collective/plan/verify_values.hpp"

#include "lib/base/check.hpp"

namespace weft::collective {

SymbolicMemory::SymbolicMemory(const Shape& shape, uint32_t rank, uint64_t work)
    : shape_(shape), rank_(rank) {
  WEFT_DCHECK(rank < shape.ranks && shape.ranks <= kMaxVerifiedRanks);
  spaces_[static_cast<int>(Space::input)].resize(input_size(shape, rank));
  spaces_[static_cast<int>(Space::output)].resize(output_size(shape, rank));
  spaces_[static_cast<int>(Space::work)].resize(work);
  for (uint64_t i = 0; i < input_size(shape, rank); ++i) {
    const Range place = resolve(shape, rank, {Space::input, i, 1});
    Value& value = spaces_[static_cast<int>(place.space)][place.offset];
    value.ranks.set(rank);
    value.index = first_equal_element(rank, i);
  }
}

// The first element of the input of `from` that is known to be equal to element i.
uint64_t SymbolicMemory::first_equal_element(uint32_t from, uint64_t i) const {
  const uint64_t width = shape_.blocks.width;
  return first_equal_row(shape_, from, i / width) * width + i % width;
}

std::string SymbolicMemory::read(const Range& range, std::vector<Value>& values) const {
  values.clear();
  for (uint64_t i = 0; i < range.count; ++i) {
    const Value& value = at(range, i);
    if (value.ranks.none())
      return "reads element " + std::to_string(range.offset + i) + " before it is written";
    values.push_back(value);
  }
  return "";
}

std::string SymbolicMemory::execute(const Step& step, const std::vector<Value>& incoming) {
  std::vector<Value> source = incoming, old, result;
  std::string error;
  if (step.kind != StepKind::receive) error = read(step.source, source);
  switch (step.kind) {
    case StepKind::receive:
    case StepKind::copy:
      result = source;
      break;
    case StepKind::receive_reduce:
      if (error.empty()) error = combine(incoming, source, result);
      break;
    case StepKind::reduce:
      if (error.empty()) error = read(step.target, old);
      if (error.empty()) error = combine(old, source, result);
      break;
    case StepKind::finish:
      result = source;
      if (error.empty()) error = finish(result);
      break;
    case StepKind::put:
      return "is a put";
  }
  if (!error.empty()) return error;
  std::vector<Value>& space = spaces_[static_cast<int>(step.target.space)];
  WEFT_DCHECK(result.size() == step.target.count && step.target.end() <= space.size());
  for (uint64_t i = 0; i < step.target.count; ++i) {
    if (step.unordered) result[i].order = uint64_t{rank_ + 1} * 0x9E3779B97F4A7C15;
    space[step.target.offset + i] = result[i];
  }
  return "";
}

const Value& SymbolicMemory::at(const Range& range, uint64_t i) const {
  WEFT_DCHECK(range.offset + i < spaces_[static_cast<int>(range.space)].size());
  return spaces_[static_cast<int>(range.space)][range.offset + i];
}

std::string SymbolicMemory::combine(const std::vector<Value>& a, const std::vector<Value>& b,
                                    std::vector<Value>& sum) const {
  WEFT_DCHECK(a.size() == b.size());
  sum = a;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].index != b[i].index)
      return "reduces element " + std::to_string(a[i].index) + " with element " +
             std::to_string(b[i].index);
    if ((a[i].ranks & b[i].ranks).any())
      return "counts a contribution to element " + std::to_string(a[i].index) + " twice";
    if (a[i].finished || b[i].finished) return "reduces an element that is already rounded";
    sum[i].ranks |= b[i].ranks;
    sum[i].order += b[i].order;
  }
  return "";
}

std::string SymbolicMemory::finish(std::vector<Value>& values) const {
  for (Value& value : values) {
    if (value.ranks.count() != shape_.ranks) return "rounds before all contributions are in";
    if (value.finished) return "rounds twice";
    value.finished = true;
  }
  return "";
}

std::string SymbolicMemory::check_output() const {
  for (uint64_t i = 0; i < output_size(shape_, rank_); ++i) {
    const Value& value = output_value(i);
    const Value wanted = expected(i);
    if (value.is_same(wanted)) continue;
    const std::string element = "output element " + std::to_string(i);
    if (value.ranks.none()) return element + " is never written";
    if (wanted.ranks.none()) return element + " is in a gap, and written";
    if (value.ranks.count() < wanted.ranks.count()) return element + " lacks contributions";
    return element + " holds what belongs elsewhere";
  }
  return "";
}

const Value& SymbolicMemory::output_value(uint64_t i) const {
  return at(resolve(shape_, rank_, {Space::output, i, 1}), 0);
}

std::string SymbolicMemory::check_bits(const SymbolicMemory& other) const {
  for (uint64_t i = 0; i < output_size(shape_, rank_); ++i)
    if (output_value(i).order != other.output_value(i).order)
      return "output element " + std::to_string(i) +
             " was added up here and elsewhere in any order";
  return "";
}

Value SymbolicMemory::expected(uint64_t i) const {
  Value value;
  value.index = i;
  if (reduces(shape_.collective)) {
    for (uint32_t r = 0; r < shape_.ranks; ++r) value.ranks.set(r);
    if (scatters(shape_.collective)) value.index += rank_block(shape_, rank_).offset;
    value.finished = shape_.average || !shape_.exact;
  } else if (shape_.collective == Collective::broadcast) {
    value.ranks.set(shape_.root);
  } else {
    return expected_from_blocks(i);
  }
  return value;
}

// Expected element i of the output of all_gather(_v), all_to_all(_v), dispatch and combine: the
// rank and the index in its input. Gaps between blocks stay unwritten.
Value SymbolicMemory::expected_from_blocks(uint64_t i) const {
  for (uint32_t from = 0; from < shape_.ranks; ++from)
    for (uint32_t part = 0; part < shape_.blocks.parts; ++part) {
      const bool gather = gathers(shape_.collective);
      const Range target =
          gather ? rank_block(shape_, from) : receive_block(shape_, from, rank_, part);
      if (i < target.offset || i >= target.end()) continue;
      Value value;
      value.ranks.set(from);
      value.index = i - target.offset;
      if (!gather)
        value.index =
            first_equal_element(from, value.index + send_block(shape_, from, rank_, part).offset);
      return value;
    }
  return {};
}

}  // namespace weft::collective
