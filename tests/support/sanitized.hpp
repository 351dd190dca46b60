// SPDX-License-Identifier: BSD-3-Clause
// WEFT_SANITIZED is defined in builds with a sanitizer, which has its own malloc and is several
// times slower.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_SANITIZED 1
#endif
#endif

namespace weft::test {
#if defined(WEFT_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
}  // namespace weft::test
