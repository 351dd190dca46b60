// SPDX-License-Identifier: BSD-3-Clause
// Iteration over an unordered container in steps, between which it may change: elements inserted or
// erased meanwhile may be missed or visited twice.
#pragma once

#include <algorithm>
#include <cstddef>

namespace weft::base {

// Calls visit(value) for the values in `count` buckets from `bucket` on. Returns the bucket to
// continue with, or 0 after the last one.
template <class Map, class Visit>
size_t visit_buckets(const Map& map, size_t bucket, size_t count, Visit visit) {
  const size_t end = std::min(map.bucket_count(), bucket + count);
  for (; bucket < end; ++bucket)
    for (auto at = map.begin(bucket); at != map.end(bucket); ++at) visit(*at);
  return bucket < map.bucket_count() ? bucket : 0;
}

}  // namespace weft::base
