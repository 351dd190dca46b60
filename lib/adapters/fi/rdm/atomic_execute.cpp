// SPDX-License-Identifier: BSD-3-Clause
// See atomic_execute.hpp.
#include "lib/adapters/fi/rdm/atomic_execute.hpp"

#include <complex>
#include <cstring>
#include <type_traits>

namespace weft::fi {
namespace {

template <class T>
constexpr bool kOrdered = std::is_arithmetic_v<T>;
template <class T>
constexpr bool kBits = std::is_integral_v<T>;

template <class T>
bool is_true(const T& value) noexcept {
  return value != T{};
}

// The value that replaces `old`. Integers are computed without sign and cut: they wrap.
template <class T>
bool combine(unsigned op, const T& old, const T& operand, T& out) noexcept {
  switch (op) {
    case FI_SUM:
      if constexpr (kBits<T>)
        out = static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(operand));
      else
        out = old + operand;
      return true;
    case FI_PROD:
      if constexpr (kBits<T>)
        out = static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(operand));
      else
        out = old * operand;
      return true;
    case FI_LOR:
      return out = static_cast<T>(is_true(old) || is_true(operand)), true;
    case FI_LAND:
      return out = static_cast<T>(is_true(old) && is_true(operand)), true;
    case FI_LXOR:
      return out = static_cast<T>(is_true(old) != is_true(operand)), true;
    case FI_ATOMIC_READ:
      return out = old, true;
    case FI_ATOMIC_WRITE:
      return out = operand, true;
    default:
      break;
  }
  if constexpr (kOrdered<T>) {
    if (op == FI_MIN) return out = operand < old ? operand : old, true;
    if (op == FI_MAX) return out = old < operand ? operand : old, true;
  }
  if constexpr (kBits<T>) {
    if (op == FI_BOR) return out = static_cast<T>(old | operand), true;
    if (op == FI_BAND) return out = static_cast<T>(old & operand), true;
    if (op == FI_BXOR) return out = static_cast<T>(old ^ operand), true;
  }
  return false;
}

// The conditions are those of fi_atomic(3): compare OP target.
template <class T>
bool swap(unsigned op, const T& old, const T& operand, const T& compare, T& out) noexcept {
  out = old;
  if (op == FI_CSWAP) return out = compare == old ? operand : old, true;
  if (op == FI_CSWAP_NE) return out = compare != old ? operand : old, true;
  if constexpr (kOrdered<T>) {
    if (op == FI_CSWAP_LE) return out = compare <= old ? operand : old, true;
    if (op == FI_CSWAP_LT) return out = compare < old ? operand : old, true;
    if (op == FI_CSWAP_GE) return out = compare >= old ? operand : old, true;
    if (op == FI_CSWAP_GT) return out = compare > old ? operand : old, true;
  }
  if constexpr (kBits<T>)
    if (op == FI_MSWAP)
      return out = static_cast<T>((operand & compare) | (old & static_cast<T>(~compare))), true;
  return false;
}

struct Operation {
  AtomicForm form;
  unsigned op;
  size_t count;
  void* target;
  const void* operands;
  const void* compare;
  void* results;
};

template <class T>
T load(const void* from, size_t i) noexcept {
  T value{};
  if (from != nullptr)
    std::memcpy(&value, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* to, size_t i, const T& value) noexcept {
  std::memcpy(static_cast<char*>(to) + i * sizeof(T), &value, sizeof(T));
}

template <class T>
bool execute(const Operation& o) noexcept {
  for (size_t i = 0; i < o.count; ++i) {
    const T old = load<T>(o.target, i), operand = load<T>(o.operands, i);
    T value{};
    const bool known = o.form == AtomicForm::compare
                           ? swap(o.op, old, operand, load<T>(o.compare, i), value)
                           : combine(o.op, old, operand, value);
    if (!known) return false;
    if (o.results != nullptr) store(o.results, i, old);
    if (o.op != FI_ATOMIC_READ) store(o.target, i, value);
  }
  return true;
}

bool execute(unsigned type, const Operation& o) noexcept {
  switch (type) {
    case FI_INT8:
      return execute<int8_t>(o);
    case FI_UINT8:
      return execute<uint8_t>(o);
    case FI_INT16:
      return execute<int16_t>(o);
    case FI_UINT16:
      return execute<uint16_t>(o);
    case FI_INT32:
      return execute<int32_t>(o);
    case FI_UINT32:
      return execute<uint32_t>(o);
    case FI_INT64:
      return execute<int64_t>(o);
    case FI_UINT64:
      return execute<uint64_t>(o);
    case FI_FLOAT:
      return execute<float>(o);
    case FI_DOUBLE:
      return execute<double>(o);
    case FI_FLOAT_COMPLEX:
      return execute<std::complex<float>>(o);
    case FI_DOUBLE_COMPLEX:
      return execute<std::complex<double>>(o);
    case FI_LONG_DOUBLE:
      return execute<long double>(o);
    case FI_LONG_DOUBLE_COMPLEX:
      return execute<std::complex<long double>>(o);
    default:
      return false;
  }
}

}  // namespace

size_t element_size(unsigned type) noexcept {
  constexpr size_t kSizes[] = {1,
                               1,
                               2,
                               2,
                               4,
                               4,
                               8,
                               8,
                               sizeof(float),
                               sizeof(double),
                               sizeof(std::complex<float>),
                               sizeof(std::complex<double>),
                               sizeof(long double),
                               sizeof(std::complex<long double>)};
  static_assert(FI_INT8 == 0 && FI_UINT64 == 7 && FI_LONG_DOUBLE_COMPLEX == 13);
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

bool is_atomic(AtomicForm form, unsigned type, unsigned op) noexcept {
  if (element_size(type) == 0) return false;
  if (form == AtomicForm::compare ? op < FI_CSWAP || op > FI_MSWAP : op > FI_ATOMIC_WRITE)
    return false;
  if (form == AtomicForm::write && op == FI_ATOMIC_READ) return false;
  alignas(16) char target[32] = {}, operand[32] = {};
  return execute(type, {form, op, 1, target, operand, operand, nullptr});
}

void execute_atomic(AtomicForm form, unsigned type, unsigned op, size_t count, void* target,
                    const void* operands, const void* compare, void* results) noexcept {
  execute(type, {form, op, count, target, operands, compare, results});
}

}  // namespace weft::fi
