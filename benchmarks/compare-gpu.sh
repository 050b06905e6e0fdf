#!/usr/bin/env bash
# Measures dispatch and combine of ep4j and of other systems on the GPUs of this host, one after the other,
# and prints one table of calls and kernels at equal SMs:
#   compare-gpu.sh [--ep4j DIR] [--peer NAME=DIR]... [--json FILE] [--dry-run] [OPTION VALUE]...
# --ep4j: an unpacked bundle or a built clone (default: this one). --peer: a directory with a package deep_ep
# that was built on this machine, for example a checkout of DeepEP or Hybrid-EP; may be repeated. What its
# package has is measured: Buffer, HybridEPBuffer or both; a package that cannot be imported from there is
# named at the end, with exit code 1. torch.distributed's exchange (NCCL) is always measured. --json writes
# all files of the table into one. Other options go to the program:
#   --sms 8,16,24,32,64 --dtype bf16,fp8 --ranks 2 --tokens 4096 --hidden 7168 --topk 8 --experts 256
#   --iterations 50 --warmup 20 --device cuda|cpu
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=tools/common.sh
source "$here/../tools/common.sh"
program=$here/../python/benchmarks/compare_exchange.py
home=$(cd "$here/.." && pwd -P)
peers=()
json=
dry=false
options=()

while (($# > 0)); do
  case $1 in
    --help | -h) script_help && exit ;;
    --dry-run) dry=true ;;
    --ep4j | --peer | --json)
      (($# > 1)) || usage_error "$1 needs a value"
      case $1 in
        --ep4j) home=$2 ;;
        --peer)
          [[ $2 == *=* ]] || usage_error "--peer $2: it must be NAME=DIR"
          [[ -d ${2#*=} ]] || usage_error "--peer $2: there is no directory ${2#*=}"
          peers+=("$2")
          ;;
        --json) json=$2 ;;
      esac
      shift
      ;;
    --*)
      (($# > 1)) || usage_error "$1 needs a value"
      options+=("$1" "$2")
      shift
      ;;
    *) usage_error "unknown argument $1" ;;
  esac
  shift
done
[[ -d $home/python/deep_ep ]] || usage_error "--ep4j $home: it has no python/deep_ep"

parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
failed=()
measured=0

# Measures system $2 under the name $1 with the packages in $3.
measure() {
  local file
  printf -v file '%s/%02d.json' "$parts" "$measured"
  measured=$((measured + 1))
  local command=(python3 "$program" measure --system "$2" --name "$1" --json "$file" "${options[@]}")
  if $dry; then
    printf 'PYTHONPATH=%s %s\n' "$3" "${command[*]@Q}"
  else
    PYTHONPATH=$3 EP4J_HOME=$home "${command[@]}" || failed+=("$1")
  fi
}

# Prints which classes the package deep_ep in directory $1 has; fails and prints why if it has none. An
# installed package of that name, or one in the current directory, must not take its place.
classes() {
  (cd / && PYTHONPATH=$1 python3 - "$1") <<'END'
import os
import sys

import deep_ep

file = deep_ep.__file__ or "a directory without __init__.py"
if not file.startswith(os.path.join(sys.argv[1], "")):
    sys.exit(f"{sys.argv[1]} has no package deep_ep; Python finds {file}")
names = [name for name in ("Buffer", "HybridEPBuffer") if hasattr(deep_ep, name)]
if not names:
    sys.exit(f"{file} has neither Buffer nor HybridEPBuffer")
print("classes:", *names)
END
}

measure ep4j deep_ep "$home/python"
measure "ep4j as Hybrid-EP" hybrid_ep "$home/python"
for peer in "${peers[@]}"; do
  name=${peer%%=*}
  path=$(cd "${peer#*=}" && pwd -P)
  found="classes: Buffer HybridEPBuffer"
  if ! $dry && ! found=$(classes "$path"); then
    failed+=("$name")
    continue
  fi
  # A package may print when it is imported.
  found=${found##*classes:}
  if [[ $found == *" Buffer"* ]]; then
    measure "$name" deep_ep "$path"
  fi
  if [[ $found == *" HybridEPBuffer"* ]]; then
    measure "$name, Hybrid-EP" hybrid_ep "$path"
  fi
done
measure "rows alone" exchange "$home/python"
$dry && exit
mapfile -t files < <(find "$parts" -name '*.json' | sort)
((${#files[@]} > 0)) || usage_error "no system could be measured"
python3 "$program" table "${files[@]}"
if [[ -n $json ]]; then
  python3 -c 'import json, sys; json.dump([json.load(open(f)) for f in sys.argv[2:]], open(sys.argv[1], "w"), indent=1)' \
    "$json" "${files[@]}"
fi
((${#failed[@]} == 0)) || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
