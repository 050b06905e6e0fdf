#!/usr/bin/env bash
# Measures ep4j and the C peers on this machine in one run. Each round runs all programs one after the
# other with equal iteration counts, so that slow periods of the machine affect all of them equally.
# Prints one Markdown table and writes all results as JSON.
set -euo pipefail

usage() {
  cat <<'END'
usage: benchmarks/compare-mpi.sh [options]
  --ranks "2 4"          numbers of ranks
  --tokens "128 4096"    tokens on each rank
  --rounds 3             rounds; the table shows the median of their medians
  --iterations N         timed iterations of a round (default: 300 below 1024 tokens, else 20)
  --hidden 7168 --topk 8 --experts 256
  --vectors N            bits of the vectors of all programs: 512, 256 or 128 (default: what the machine has);
                         on AArch64 128, NEON
  --json FILE            where the results go (default: benchmarks/build/compare-mpi.json)
  --peers-only           leave ep4j out
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(dirname "$here")
build=$here/build
ranks="2 4" tokens="128 4096" rounds=3 iterations="" hidden=7168 topk=8 experts=256 vectors=""
json=$build/compare-mpi.json peers_only=false

fail() {
  printf 'compare-mpi: %s\n' "$@" >&2
  exit 1
}

while (($# > 0)); do
  case $1 in
    --peers-only) peers_only=true ;;
    --help | -h) usage && exit 0 ;;
    --ranks | --tokens | --rounds | --iterations | --hidden | --topk | --experts | --vectors | --json)
      (($# > 1)) || fail "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    *) usage >&2 && fail "unknown option $1" ;;
  esac
  shift
done

# What limits the vectors of the C programs.
machine=$(uname -m)
case $machine-$vectors in
  x86_64- | x86_64-512) limit="" ;;
  x86_64-256) limit=-mno-avx512f ;;
  x86_64-128) limit="-mno-avx512f -mno-avx2" ;;
  # The C programs have NEON. A JVM may have longer vectors, by SVE: then no side has more than the other.
  aarch64- | aarch64-128) limit="" vectors=128 ;;
  aarch64-*) fail "--vectors is $vectors; on $machine it must be 128, the bits of NEON, which the C programs have" ;;
  x86_64-*) fail "--vectors is $vectors; it must be 512, 256 or 128" ;;
  *) fail "this machine is $machine; the C programs have vectors for x86_64 and aarch64 only" ;;
esac

# Checks the packages that the comparison needs. As root on Debian, installs the missing ones.
require() {
  local missing=()
  command -v make >/dev/null || missing+=(make)
  command -v cc >/dev/null || missing+=(gcc)
  command -v mpirun >/dev/null || missing+=(openmpi-bin)
  command -v mpicc >/dev/null || missing+=(libopenmpi-dev)
  ((${#missing[@]} > 0)) || return 0
  if ((EUID == 0)) && command -v apt-get >/dev/null; then
    echo "compare-mpi: installing ${missing[*]} ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -qq -y "${missing[@]}"; } >&2 ||
      fail "the installation failed: see its messages above"
  else
    fail "missing: ${missing[*]}" "Install these packages (names as in Debian and Ubuntu) and run again."
  fi
}

progress() {
  [[ ! -t 2 ]] || printf '\r\033[K%s' "$1" >&2
}

# contestant NAME COMMAND...: runs the command, which writes its results to the file $RESULT or prints
# them, and stores them as $raw/RANKS-TOKENS-ROUND-NAME.json.
contestant() {
  local name=$1 out=$raw/$r-$t-$round-$1.json log=$raw/$r-$t-$round-$1.log
  shift
  progress "ranks $r, tokens $t, round $round of $rounds: $name"
  RESULT=$out timeout 900 "$@" >"$log" 2>&1 ||
    fail "$name failed: $*" "$(tail -n 20 "$log")"
  [[ -s $out ]] || mv "$log" "$out"
}

mpi() {
  # shellcheck disable=SC2086 # options, or none
  mpirun $place -n "$r" "$@" --tokens "$t" --hidden "$hidden" \
    --topk "$topk" --experts "$experts" --iterations "$n" --warmup "$warmup" --json
}

# One thread a rank, as the C programs have.
ep4j() {
  "$root/ep4j" bench ht --ranks "$r" "$@" --sms 1 --tokens "$t" --hidden "$hidden" --topk "$topk" \
    --experts "$experts" --dtype bf16 --iterations "$n" --warmup "$warmup" --buffers 4 --json "$RESULT"
}

require
# Open MPI would refuse more ranks than cores, and bind each to one; MPICH does neither.
place=
if [[ $(mpirun --version 2>&1) == *"Open MPI"* ]]; then
  place="--oversubscribe --bind-to none"
fi
# Programs for other vectors than the last time must not stay.
make --quiet --directory "$here/peers" BUILD="$build" clean-programs
make --quiet --directory "$here/peers" BUILD="$build" CFLAGS="-O3 -march=native $limit" all
[[ -z $vectors ]] || export JDK_JAVA_OPTIONS="${JDK_JAVA_OPTIONS:-} -Dep4j.host.vectorBits=$vectors"
raw=$build/raw
rm -rf "$raw"
mkdir -p "$raw" "$(dirname "$json")"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export -f mpi ep4j
export r t n warmup hidden topk experts root place

for r in $ranks; do
  for t in $tokens; do
    # Equal for all programs; long enough for the JIT compiler of the JVM.
    n=${iterations:-$((t < 1024 ? 300 : 20))} warmup=$(((t < 1024 ? n : n / 5) + 31))
    for ((round = 1; round <= rounds; round++)); do
      contestant alltoallv bash -c 'mpi "$@"' - "$build/alltoallv_moe"
      $peers_only || contestant ep4j-processes bash -c 'ep4j --processes'
      contestant direct bash -c 'mpi "$@"' - "$build/direct_moe" --ceilings
      $peers_only || contestant ep4j-threads bash -c 'ep4j --threads'
      contestant direct-memcpy bash -c 'mpi "$@"' - "$build/direct_moe" --variant cached
    done
  done
done
progress ""
"${JAVA_HOME:+$JAVA_HOME/bin/}java" "$here/ComparisonTable.java" "$raw" "$json"
echo "Results: $json" >&2
