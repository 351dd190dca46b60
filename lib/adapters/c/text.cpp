// SPDX-License-Identifier: BSD-3-Clause
// C API: texts of errors, names, addresses.
#include <cstdio>

#include "lib/adapters/c/call.hpp"
#include "weft/log.hpp"

namespace weft::c {

// Enumerators are converted by their number.
static_assert(static_cast<int>(Code::io_error) == WEFT_IO_ERROR);
static_assert(static_cast<int>(Code::would_block) == WEFT_WOULD_BLOCK);
static_assert(static_cast<int>(Status::fatal) == WEFT_FATAL);
static_assert(static_cast<int>(Status::retry_exceeded) == WEFT_RETRY_EXCEEDED);

// No allocation: also that memory ran out is told.
static thread_local char last_text[1024];

weft_code failed(Code code, std::string_view text, const char* function) noexcept {
  std::snprintf(last_text, sizeof last_text, "%s%s%.*s", function != nullptr ? function : "",
                function != nullptr ? ": " : "",
                static_cast<int>(std::min(text.size(), sizeof last_text)), text.data());
  return code <= Code::io_error ? static_cast<weft_code>(code) : WEFT_IO_ERROR;
}

AddressVector path_of(const weft_address_vector& path) {
  AddressVector it;
  it.destination = gid_of(path.destination);
  it.flow_label = path.flow_label;
  if (path.hop_limit != 0) it.hop_limit = path.hop_limit;
  it.traffic_class = path.traffic_class;
  return it;
}

weft_address_vector path_of(const AddressVector& path) {
  return {gid_of(path.destination), path.flow_label, path.hop_limit, path.traffic_class};
}

}  // namespace weft::c

const char* weft_error_text(void) { return weft::c::last_text; }

const char* weft_code_name(weft_code code) {
  if (code < WEFT_OK || code > WEFT_IO_ERROR) return "unknown";
  return weft::name(static_cast<weft::Code>(code)).data();
}

const char* weft_status_name(weft_status status) {
  if (status < WEFT_SUCCESS || status > WEFT_FATAL) return "unknown";
  return weft::name(static_cast<weft::Status>(status)).data();
}

const char* weft_status_reason(weft_status status) {
  if (status < WEFT_SUCCESS || status > WEFT_FATAL) return "not a status of this version";
  return weft::reason(static_cast<weft::Status>(status)).data();
}

const char* weft_version(void) { return WEFT_VERSION; }

weft_code weft_gid_parse(const char* text, weft_gid* gid) {
  return weft::c::call({{"text", text}, {"gid", gid}}, [&] {
    const weft::Result<weft::Gid> parsed = weft::parse_gid(text);
    if (!parsed) return weft::c::failed(parsed.error());
    *gid = weft::c::gid_of(*parsed);
    return WEFT_OK;
  });
}

const char* weft_gid_text(const weft_gid* gid, char* text, size_t size) {
  if (text == nullptr || size == 0) return "";
  *text = '\0';
  (void)weft::c::call({{"gid", gid}}, [&] {
    std::snprintf(text, size, "%s", weft::to_string(weft::c::gid_of(*gid)).c_str());
    return WEFT_OK;
  });
  return text;
}
