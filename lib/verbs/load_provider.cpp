// SPDX-License-Identifier: BSD-3-Clause
// Providers by name: those of the build, and those in modules.
#include <algorithm>

#include "lib/base/module/module.hpp"
#include "lib/verbs/provider.hpp"

namespace weft::verbs {

namespace {

base::ModuleName module_of(const Provider& provider) {
  return {"provider", provider.name, provider.package, provider.missing};
}

const Provider* find_provider(std::string_view name) {
  for (const Provider& provider : providers())
    if (provider.name == name) return &provider;
  return nullptr;
}

bool is_module(const Provider& provider) { return provider.open == nullptr; }

Error unknown(std::string_view name) {
  std::string known;
  for (const Provider& provider : providers())
    known += (known.empty() ? "" : ", ") + std::string(provider.name);
  return {Code::not_found, "no provider \"" + std::string(name) + "\"; this build has " + known +
                               ", and " +
                               base::unloaded_reason({.kind = "provider", .name = name})};
}

// The row of a provider that is not loaded, or could not be.
DeviceListing not_usable(std::string_view name, std::string reason) {
  return {.spec = std::string(name), .usable = false, .reason = std::move(reason)};
}

void list_module(const base::ModuleName& module, std::vector<DeviceListing>& out,
                 LoadModules modules) {
  if (modules == LoadModules::no && base::loaded_module(module) == nullptr) {
    out.push_back(not_usable(module.name, base::unloaded_reason(module)));
    return;
  }
  const Result<Provider> loaded = load_provider(module.name);
  if (loaded)
    loaded->list(out, modules);
  else
    out.push_back(not_usable(module.name, loaded.error().message));
}

}  // namespace

Result<Provider> load_provider(std::string_view name) {
  const Provider* const known = find_provider(name);
  if (known != nullptr && !is_module(*known)) return *known;
  const base::ModuleName module =
      known != nullptr ? module_of(*known) : base::ModuleName{.kind = "provider", .name = name};
  const Result<const void*> extension = base::load_module(module);
  if (!extension && extension.error().code == Code::not_found && known == nullptr)
    return unknown(name);
  if (!extension) return extension.error();
  return *static_cast<const Provider*>(*extension);
}

void list_providers(std::vector<DeviceListing>& out, LoadModules modules) {
  for (const Provider& provider : providers()) {
    if (is_module(provider))
      list_module(module_of(provider), out, modules);
    else
      provider.list(out, modules);
  }
  for (const std::string& name : base::module_names("provider"))
    if (find_provider(name) == nullptr)
      list_module({.kind = "provider", .name = name, .package = {}}, out, modules);
}

}  // namespace weft::verbs
