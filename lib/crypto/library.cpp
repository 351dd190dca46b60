// SPDX-License-Identifier: BSD-3-Clause
// See library.hpp.
#include "lib/crypto/library.hpp"

#include "lib/base/module/module.hpp"

namespace weft::crypto {

namespace {

base::ModuleName module_of(const Library& library) {
  return {"crypto", library.name, library.package, library.missing};
}

std::string built_without(const Library& library) {
  return "this weft was built without " + std::string(library.missing) + ", and build it again";
}

}  // namespace

Result<const Library*> load_library() {
  const Library& known = crypto_folders().front()();
  if (known.open != nullptr) return &known;
  std::string why;
  if (known.package.empty()) {
    why = built_without(known);
  } else {
    const Result<const void*> loaded = base::load_module(module_of(known));
    if (loaded) return static_cast<const Library*>(*loaded);
    if (loaded.error().code == Code::no_memory) return loaded.error();
    why = loaded.error().message;
  }
  return Error{Code::not_supported,
               "connections are authenticated by TLS, which is not to be had here: " + why +
                   "; or say `insecure` on both sides, for clear text"};
}

}  // namespace weft::crypto
