# SPDX-License-Identifier: BSD-3-Clause
# The commands of ./dev that search for what the tests do not: fuzz, sanitize, determinism, mutate.
# ./dev sources this file, and its functions are those of ./dev.

# New inputs go into build/fuzz/corpus; the committed corpus is read only. With runs=N nothing is
# left to chance and nothing found before counts, so that a change is judged for what it changes.
command_fuzz() {
  local much=${1:-20} target limit found=build/fuzz/corpus
  packages_of_preset fuzz
  build_preset fuzz fuzzers
  shift || true
  case $much in
    runs=*)
      limit=(-seed=1 "-$much")
      found=build/fuzz/fresh
      rm -rf "$found"
      ;;
    *) limit=("-max_total_time=$much") ;;
  esac
  local targets=("$@")
  ((${#targets[@]})) || mapfile -t targets < <(cd build/fuzz/bin 2>/dev/null && ls fuzz_* | grep -v _replay || true)
  ((${#targets[@]})) || die "there is no tests/fuzz/fuzz_*.cpp"
  for target in "${targets[@]}"; do
    mkdir -p "$found/$target" "build/fuzz/failures"
    local corpora=("$found/$target")
    [[ -d tests/fuzz/corpus/$target ]] && corpora+=("tests/fuzz/corpus/$target")
    local words=()
    [[ -f tests/fuzz/dictionary/$target ]] && words=("-dict=tests/fuzz/dictionary/$target")
    local log=build/fuzz/$target.log
    if ! "build/fuzz/bin/$target" "${limit[@]}" "${words[@]}" -timeout=10 -rss_limit_mb=2048 \
      -artifact_prefix=build/fuzz/failures/ "${corpora[@]}" >"$log" 2>&1; then
      tail -n 60 "$log"
      die "$target failed; its input is the artifact in build/fuzz/failures"
    fi
    say "$target: $(grep '^Done ' "$log"), $(grep -oE 'cov: [0-9]+' "$log" | tail -1)"
  done
  say "${#targets[@]} passed, 0 failed"
}

# The part of `./dev test asan` and `./dev test tsan` that fits before a landing: units, packet
# scripts and hostile peers under ASan and UBSan, in the build of the fuzz targets; under TSan what
# has threads. A tenth of the random work, as in the whole suites.
command_sanitize() {
  local which=${1:-asan} preset targets tests wrap=()
  case $which in
    asan)
      preset=fuzz
      targets=(wire_tests wire_neighbour_test memory_tests transport_tests message_tests roce_tests
        roce_rc_tests roce_cm_tests srd_tests srd_attacks_tests ports_shm_tests weft_script)
      tests='^(wire|memory|transport|message|roce|roce/rc|roce/cm|srd|srd/attacks|ports/shm|script)/'
      ;;
    tsan)
      preset=tsan
      targets=(driver_tests ports_shm_tests conformance_tests)
      tests='^(driver|ports/shm)/|^conformance/threads_test.*@(udp|shm|srd_udp|srd_shm)$'
      setarch -R true 2>/dev/null && wrap=(setarch -R) # as command_test
      ;;
    *) die "no sanitizer '$which': asan or tsan" ;;
  esac
  sanitizer_environment
  packages_of_preset "$preset"
  build_preset "$preset" "${targets[@]}"
  "${wrap[@]}" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j 2 \
    -LE long -R "$tests"
}

# Of a scenario whose hosts run the RoCE or, with controllers that spray, the SRD engine.
engine_digests() {
  local preset=$1 scenario=$2 out=build/$1/determinism
  "build/$preset/bin/weft_sim" run "scenarios/$scenario.toml" --fidelity engine --cc "$3" \
    --out "$out" >/dev/null || die "weft_sim of $preset failed in $scenario"
  grep digest "$out/summary.json" >>"build/$preset/hashes.txt"
}

# The simulator promises the same events from each compiler and optimization. sim_swarm prints one
# line `seed S hash H` for each seed.
command_determinism() {
  local seeds=${1:-20} presets=(release debug clang clang-debug) preset
  (($# > 1)) && presets=("${@:2}")
  ensure_packages "${test_packages[@]}" "${clang_packages[@]}"
  for preset in "${presets[@]}"; do
    build_preset "$preset" sim_swarm weft_sim_program
    "build/$preset/bin/sim_swarm" --seeds "$seeds" --hashes | grep hash \
      >"build/$preset/hashes.txt" || die "sim_swarm of $preset failed"
    "build/$preset/bin/sim_swarm" --srd --seeds "$seeds" --hashes | grep hash \
      >>"build/$preset/hashes.txt" || die "sim_swarm --srd of $preset failed"
    engine_digests "$preset" incast-16 hpcc,dcqcn-paper,swift
    engine_digests "$preset" spray-incast-16 nscc,rccc,nscc+rccc
  done
  for preset in "${presets[@]:1}"; do
    diff "build/${presets[0]}/hashes.txt" "build/$preset/hashes.txt" ||
      die "the event hashes of ${presets[0]} (<) and $preset (>) differ"
  done
  say "$(wc -l <"build/${presets[0]}/hashes.txt") runs, equal hashes from ${presets[*]}"
}

# command_mutate ROOM|changed [N [SEED]] ..: the mutation score of a room's tests.
command_mutate() {
  ensure_packages "${test_packages[@]}" clang
  local names programs
  names=$(python3 tests/mutation/mutate.py --programs "$@") || return
  read -ra programs <<<"$names"
  build_preset release "${programs[@]}"
  python3 tests/mutation/mutate.py "$@"
}
