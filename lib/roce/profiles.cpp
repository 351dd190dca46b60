// SPDX-License-Identifier: BSD-3-Clause
// The table. See profiles.hpp.
#include "lib/roce/profiles.hpp"

#include <algorithm>

namespace weft::roce {

namespace {

constexpr Profile kProfiles[] = {
    {
        .name = "connectx",
        .migrated = {true, "m1"},
        .source_port = {SourcePortRule::both_numbers, "m2"},
        .answers_marks = {true, "v1"},
        .cnp_dscp = {48, "v1"},
        .cnp_interval = {Duration::from_us(4), "v1"},
        .ack_request_every = {256, "m3"},
        .retry_timer = {RetryTimer::short_first, "v3"},
        .retries_for_ever = {false, "v3", "seven, after the short ones"},
        .selective_repeat = {false, "v3", "go-back-N; selective repeat if forced"},
    },
    {
        .name = "bnxt",
        .source_port = {{}, "b1", "chosen by firmware"},
        .ecn = {EcnRule::always_ect1, "b3", "ECT(1), set at load of the driver"},
        .answers_marks = {true, "v2"},
        .cnp_dscp = {48, "v2"},
    },
    {
        .name = "e810",
        .migrated = {false, "l1"},
        .source_port = {SourcePortRule::both_numbers, "i1"},
        .ecn = {EcnRule::controlled, "i2", "ECT(0) if DCQCN or DCTCP is on"},
        .answers_marks = {true, "l1"},
        .cnp_interval = {Duration::from_us(50), "l1"},
        .retry_timer = {{}, "i3", "not `timeout`; what else is unknown"},
    },
    {
        .name = "rxe",
        .migrated = {false, "x1"},
        .source_port = {SourcePortRule::both_numbers, "x2"},
        .ecn = {EcnRule::address_vector, "x3"},
        .answers_marks = {false, "x4"},
        .cnp_dscp = {{}, "x4", "sends none"},
        .cnp_interval = {{}, "x4", "sends none"},
        .ack_request_every = {66, "x5"},
        .credits = {false, "x6"},
        .naks_behind_rnr = {true, "x7"},
        .keeps_early = {false, "x7"},
        .acks_each_duplicate = {true, "x7"},
        .too_long = {wire::kNakRemoteOperation, "x7"},
        .retry_timer = {RetryTimer::jiffies, "x8"},
        .retries_for_ever = {true, "x8"},
        .rnr_in_jiffies = {true, "x8"},
        .probes = {false, "x8"},
        .selective_repeat = {false, "x8"},
    },
    {
        .name = "weft",
        .migrated = {true, "w1"},
        .source_port = {SourcePortRule::own_number, "w2"},
        .ecn = {EcnRule::controlled, "w2"},
        .answers_marks = {true, "w4"},
        .cnp_dscp = {48, "w4", "48, `cnp_dscp`"},
        .cnp_interval = {Duration::from_us(50), "w4", "50 us a queue pair, `cnp_interval_us`"},
        .ack_request_every = {16, "w5"},
        .credits = {true, "w6"},
        .naks_behind_rnr = {false, "w6"},
        .keeps_early = {true, "w6"},
        .acks_each_duplicate = {false, "w6"},
        .too_long = {wire::kNakInvalidRequest, "w6"},
        .retry_timer = {RetryTimer::exact, "w7"},
        .retries_for_ever = {false, "w7"},
        .rnr_in_jiffies = {false, "w7"},
        .probes = {true, "w7"},
        .selective_repeat = {true, "w8"},
    },
};

}  // namespace

std::span<const Profile> profiles() noexcept { return kProfiles; }

const Profile* find_profile(std::string_view name) noexcept {
  const auto found = std::find_if(std::begin(kProfiles), std::end(kProfiles),
                                  [name](const Profile& p) { return p.name == name; });
  return found == std::end(kProfiles) ? nullptr : found;
}

void apply(const Profile& profile, EngineConfig& config) noexcept {
  const auto take = [&profile](auto& to, auto cell) {
    const Profile& weft = profiles().back();
    to = (profile.*cell).value.value_or(*(weft.*cell).value);
  };
  Habits& habits = config.habits;
  take(habits.migrated, &Profile::migrated);
  take(habits.source_port, &Profile::source_port);
  take(habits.ecn, &Profile::ecn);
  take(habits.answers_marks, &Profile::answers_marks);
  take(config.cnp_dscp, &Profile::cnp_dscp);
  take(config.cnp_interval, &Profile::cnp_interval);
  take(habits.ack_request_every, &Profile::ack_request_every);
  take(config.credits, &Profile::credits);
  take(habits.naks_behind_rnr, &Profile::naks_behind_rnr);
  take(habits.keeps_early, &Profile::keeps_early);
  take(habits.acks_each_duplicate, &Profile::acks_each_duplicate);
  take(habits.too_long, &Profile::too_long);
  take(habits.retry_timer, &Profile::retry_timer);
  take(habits.retries_for_ever, &Profile::retries_for_ever);
  take(habits.rnr_in_jiffies, &Profile::rnr_in_jiffies);
  take(habits.probes, &Profile::probes);
}

}  // namespace weft::roce
