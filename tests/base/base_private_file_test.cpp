// SPDX-License-Identifier: BSD-3-Clause
// Files for memory and keys: whom they belong to, who can read them, and which names are refused.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lib/base/private_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

// A folder of its own, removed at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("weft_private_" + std::to_string(getpid()));
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

unsigned mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

// The message of a refusal, and that it left the target as it was.
std::string refused(const std::string& path, const std::string& target) {
  const Result<File> file = create_private_file(path, "capture file");
  REQUIRE_FALSE(file);
  CHECK(file.error().code == Code::permission_denied);
  CHECK(file.error().message.find("cannot create capture file \"" + path + "\": ") == 0);
  CHECK(text_of(target) == "precious");
  return file.error().message;
}

bool says(const std::string& message, const char* part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a new file is its owner's alone, whatever the umask says") {
  Folder folder;
  const mode_t before = ::umask(0);
  Result<File> file = create_private_file(folder / "new", "capture file");
  ::umask(before);
  REQUIRE(file);
  CHECK(mode_of(folder / "new") == 0600);
  CHECK((::fcntl(::fileno(file->get()), F_GETFD) & FD_CLOEXEC) != 0);
  std::fputs("text", file->get());
  file->reset();
  CHECK(text_of(folder / "new") == "text");
}

TEST_CASE("an existing file of the caller's is emptied and becomes private") {
  Folder folder;
  write_text(folder / "old", "a long text that is there");
  fs::permissions(folder / "old", fs::perms::all);
  Result<File> file = create_private_file(folder / "old", "capture file");
  REQUIRE(file);
  CHECK(mode_of(folder / "old") == 0600);
  CHECK(text_of(folder / "old").empty());
}

TEST_CASE("links are refused, and what they name stays as it was") {
  Folder folder;
  write_text(folder / "target", "precious");
  fs::create_symlink(folder / "target", folder / "link");
  CHECK(says(refused(folder / "link", folder / "target"), "symbolic link"));
  fs::create_symlink(folder / "nowhere", folder / "dangling");
  CHECK(says(refused(folder / "dangling", folder / "target"), "symbolic link"));
  CHECK_FALSE(fs::exists(folder / "nowhere"));
  fs::create_hard_link(folder / "target", folder / "second");
  CHECK(says(refused(folder / "second", folder / "target"), "several names"));
}

TEST_CASE("a file of another user is refused") {
  if (geteuid() != 0) WEFT_SKIP("a file of another user is refused", "only root can make one");
  Folder folder;
  write_text(folder / "theirs", "precious");
  REQUIRE(::chown((folder / "theirs").c_str(), 65534, 65534) == 0);
  CHECK(says(refused(folder / "theirs", folder / "theirs"), "another user"));
}

TEST_CASE("devices are written, folders and missing folders are errors") {
  Folder folder;
  CHECK(create_private_file("/dev/null", "capture file"));
  CHECK_FALSE(create_private_file(folder.path.string(), "capture file"));
  const Result<File> missing = create_private_file(folder / "no/file", "capture file");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == Code::not_found);
}

}  // namespace weft::base
