// SPDX-License-Identifier: BSD-3-Clause
// See board.hpp.
#include "tools/nccl_check/board.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace weft::nccl_check {
namespace {

template <size_t N>
void write(char (&to)[N], std::string_view text) {
  const size_t length = std::min(text.size(), N - 1);
  std::copy_n(text.data(), length, to);
  to[length] = '\0';
}

}  // namespace

Board* Board::create() {
  void* const memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Board;
}

void Board::destroy(Board* board) { (void)::munmap(board, sizeof(Board)); }

void Board::write_text(int rank, std::string_view text) {
  write(ranks[static_cast<size_t>(rank)].text, text);
}
void Board::write_place(int rank, std::string_view text) {
  write(ranks[static_cast<size_t>(rank)].place, text);
}

}  // namespace weft::nccl_check
