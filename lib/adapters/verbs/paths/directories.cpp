// SPDX-License-Identifier: BSD-3-Clause
// opendir(), readdir() and scandir(): a directory of the view, which lists what the machine has
// there first. A DIR* of ours is a Stream in a list; every function that takes a DIR* looks there
// while the list is not empty.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/adapters/verbs/paths/next.hpp"
#include "lib/adapters/verbs/paths/tree.hpp"

// readdir_r() is deprecated, and programs call it.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace weft::paths {
namespace {

static_assert(sizeof(dirent) == sizeof(dirent64));  // a 64-bit machine

struct Stream {
  DIR* real;  // what the machine has there; null: it has no such directory
  Node node;
  size_t position = 0;  // names read of the view
  dirent entry;
  Stream* next;
};

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // of the list
Stream* g_streams = nullptr;
std::atomic<int> g_count = 0;

Stream* stream_of(DIR* directory) noexcept {
  if (g_count.load(std::memory_order_acquire) == 0) return nullptr;
  ::pthread_mutex_lock(&g_lock);
  Stream* stream = g_streams;
  while (stream != nullptr && reinterpret_cast<DIR*>(stream) != directory) stream = stream->next;
  ::pthread_mutex_unlock(&g_lock);
  return stream;
}

void unlink_stream(Stream* stream) noexcept {
  ::pthread_mutex_lock(&g_lock);
  Stream** link = &g_streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  ::pthread_mutex_unlock(&g_lock);
  g_count.fetch_sub(1, std::memory_order_release);
}

unsigned char type_of(Kind kind) noexcept {
  return kind == Kind::directory ? DT_DIR : kind == Kind::device ? DT_CHR : DT_REG;
}

bool machine_has(const Stream& stream, const char* name) noexcept {
  char path[kLongestPath + sizeof(Name::text)];
  std::snprintf(path, sizeof path, "%s/%s", stream.node.path, name);
  return WEFT_NEXT(access)(path, F_OK) == 0;
}

// The next name of the view; false at the end.
bool next_name(Stream& stream, Name& name) noexcept {
  constexpr const char* kDots[] = {".", ".."};
  const size_t dots = stream.real == nullptr ? 2 : 0;  // else the machine's directory has them
  while (true) {
    const size_t at = stream.position;
    if (at < dots) {
      std::snprintf(name.text, sizeof name.text, "%s", kDots[at]);
      name.kind = Kind::directory;
    } else if (!name_in(stream.node, at - dots, name)) {
      return false;
    }
    ++stream.position;
    if (dots != 0 || !machine_has(stream, name.text)) return true;
  }
}

dirent* read_stream(Stream& stream) noexcept {
  if (stream.real != nullptr && stream.position == 0) {
    const int error = errno;
    errno = 0;
    dirent* const entry = WEFT_NEXT(readdir)(stream.real);
    if (entry != nullptr || errno != 0) return entry;
    errno = error;
  }
  Name name;
  const int error = errno;
  const bool found = next_name(stream, name);
  errno = error;
  if (!found) return nullptr;
  dirent& entry = stream.entry;
  std::memset(&entry, 0, sizeof entry);
  entry.d_ino = stream.position;
  entry.d_off = static_cast<off_t>(stream.position);
  entry.d_reclen = sizeof entry;
  entry.d_type = type_of(name.kind);
  std::snprintf(entry.d_name, sizeof entry.d_name, "%s", name.text);
  return &entry;
}

// Null: no memory.
Stream* open_stream(DIR* real, const Node& node) noexcept {
  auto* const stream = static_cast<Stream*>(std::malloc(sizeof(Stream)));
  if (stream == nullptr) return nullptr;
  stream->real = real;
  stream->node = node;
  stream->position = 0;
  ::pthread_mutex_lock(&g_lock);
  stream->next = g_streams;
  g_streams = stream;
  ::pthread_mutex_unlock(&g_lock);
  g_count.fetch_add(1, std::memory_order_release);
  return stream;
}

// What opendir() returned, or a stream of the view that lists it first.
DIR* opened(DIR* real, const char* path) noexcept {
  const int error = errno;
  if (real == nullptr && !is_absent(error)) return nullptr;
  const Node node = find(path);
  errno = error;
  if (!node) return real;
  if (node.kind != Kind::directory) {
    errno = ENOTDIR;
    return real;
  }
  Stream* const stream = open_stream(real, node);
  return stream != nullptr ? reinterpret_cast<DIR*>(stream) : real;
}

int close_stream(Stream* stream) noexcept {
  unlink_stream(stream);
  const int result = stream->real != nullptr ? WEFT_NEXT(closedir)(stream->real) : 0;
  std::free(stream);
  return result;
}

// readdir_r() of a stream.
template <class Entry>
int read_into(Stream& stream, Entry* entry, Entry** result) noexcept {
  const dirent* const found = read_stream(stream);
  *result = nullptr;
  if (found == nullptr) return 0;
  std::memcpy(entry, found, sizeof *entry);
  *result = entry;
  return 0;
}

// telldir() of names of the view, which no position of a directory of the machine is.
constexpr long kInView = long{1} << 62;

// The entries of a list that grows; freed by the caller of scandir().
template <class Entry>
struct Entries {
  Entry** list = nullptr;
  size_t count = 0;

  bool add(const Entry& entry) noexcept {
    auto** const grown = static_cast<Entry**>(std::realloc(list, (count + 1) * sizeof(Entry*)));
    if (grown == nullptr) return false;
    list = grown;
    list[count] = static_cast<Entry*>(std::malloc(sizeof(Entry)));
    if (list[count] == nullptr) return false;
    std::memcpy(list[count++], &entry, sizeof(Entry));
    return true;
  }
  int fail() noexcept {
    while (count > 0) std::free(list[--count]);
    std::free(list);
    return -1;
  }
};

template <class Entry>
int scan(const Node& node, Entry*** names, int (*selects)(const Entry*),
         int (*compares)(const Entry**, const Entry**)) noexcept {
  Stream* const stream = open_stream(WEFT_NEXT(opendir)(node.path), node);
  if (stream == nullptr) return -1;
  Entries<Entry> entries;
  bool complete = true;
  while (const auto* entry = reinterpret_cast<const Entry*>(read_stream(*stream)))
    if (selects == nullptr || selects(entry) != 0) complete = complete && entries.add(*entry);
  close_stream(stream);
  if (!complete) return entries.fail();
  if (compares != nullptr && entries.count > 0)
    ::qsort(entries.list, entries.count, sizeof(Entry*),
            reinterpret_cast<int (*)(const void*, const void*)>(compares));
  *names = entries.list;
  return static_cast<int>(entries.count);
}

Node find_directory(const char* path) noexcept {
  const int error = errno;
  Node node = find(path);
  errno = error;
  if (node.kind != Kind::directory) node.kind = Kind::absent;
  return node;
}

}  // namespace
}  // namespace weft::paths

using namespace weft::paths;

WEFT_INTERPOSES DIR* opendir(const char* path) { return opened(WEFT_NEXT(opendir)(path), path); }

WEFT_INTERPOSES dirent* readdir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? read_stream(*stream) : WEFT_NEXT(readdir)(directory);
}
WEFT_INTERPOSES dirent64* readdir64(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? reinterpret_cast<dirent64*>(read_stream(*stream))
                           : WEFT_NEXT(readdir64)(directory);
}
WEFT_INTERPOSES int readdir_r(DIR* directory, dirent* entry, dirent** result) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? read_into(*stream, entry, result)
                           : WEFT_NEXT(readdir_r)(directory, entry, result);
}
WEFT_INTERPOSES int readdir64_r(DIR* directory, dirent64* entry, dirent64** result) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? read_into(*stream, entry, result)
                           : WEFT_NEXT(readdir64_r)(directory, entry, result);
}
WEFT_INTERPOSES int closedir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? close_stream(stream) : WEFT_NEXT(closedir)(directory);
}
WEFT_INTERPOSES int dirfd(DIR* directory) noexcept {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return WEFT_NEXT(dirfd)(directory);
  if (stream->real != nullptr) return WEFT_NEXT(dirfd)(stream->real);
  errno = ENOTSUP;
  return -1;
}
WEFT_INTERPOSES void rewinddir(DIR* directory) noexcept {
  Stream* const stream = stream_of(directory);
  if (stream != nullptr) stream->position = 0;
  DIR* const real = stream != nullptr ? stream->real : directory;
  if (real != nullptr) WEFT_NEXT(rewinddir)(real);
}
WEFT_INTERPOSES long telldir(DIR* directory) noexcept {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return WEFT_NEXT(telldir)(directory);
  if (stream->real != nullptr && stream->position == 0) return WEFT_NEXT(telldir)(stream->real);
  return kInView + static_cast<long>(stream->position);
}
WEFT_INTERPOSES void seekdir(DIR* directory, long position) noexcept {
  Stream* const stream = stream_of(directory);
  const bool in_view = stream != nullptr && position >= kInView;
  if (stream != nullptr) stream->position = in_view ? static_cast<size_t>(position - kInView) : 0;
  DIR* const real = stream != nullptr ? stream->real : directory;
  if (real != nullptr && !in_view) WEFT_NEXT(seekdir)(real, position);
}
WEFT_INTERPOSES int scandir(const char* path, dirent*** names, int (*selects)(const dirent*),
                            int (*compares)(const dirent**, const dirent**)) {
  const Node node = find_directory(path);
  return node ? scan(node, names, selects, compares)
              : WEFT_NEXT(scandir)(path, names, selects, compares);
}
WEFT_INTERPOSES int scandir64(const char* path, dirent64*** names, int (*selects)(const dirent64*),
                              int (*compares)(const dirent64**, const dirent64**)) {
  const Node node = find_directory(path);
  return node ? scan(node, names, selects, compares)
              : WEFT_NEXT(scandir64)(path, names, selects, compares);
}
