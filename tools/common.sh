# Sourced by the scripts of this repository: help, errors, finding a JDK and running Maven on it.
# shellcheck shell=bash

readonly NEEDED_JDK=25

# Prints an error and ends the script: code of org.ep4j.error.ErrorCode (optional), text, further lines.
fail() {
  local code=
  if [[ $1 == EP4J-* ]]; then
    code="$1: "
    shift
  fi
  printf '%s: %s%s\n' "$(basename "$0")" "$code" "$1" >&2
  (($# == 1)) || printf '%s\n' "${@:2}" >&2
  exit 1
}

# As fail, for wrong usage: with exit code 2, as in every command of ep4j.
usage_error() {
  (fail "$@") || exit 2
}

# Prints the help of this script: the comment at its top.
script_help() {
  sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
}

# Prints the help and ends the script if $1, its first argument, asks for help.
offer_help() {
  [[ ${1:-} != -h && ${1:-} != --help ]] || { script_help && exit; }
}

# Ends the script on a system that ep4j does not support.
require_linux() {
  local system
  system="$(uname -s) on $(uname -m)"
  case $system in
    "Linux on x86_64" | "Linux on aarch64") ;;
    *)
      fail EP4J-8105 "this machine runs $system, which is not supported:" \
        "use Linux on x86-64 or AArch64: another machine, a virtual one, or WSL 2 on Windows"
      ;;
  esac
}

# Ends the script where a JVM could not even open its files. The JVM raises its own limit to the hard one.
require_open_files() {
  local limit
  limit=$(ulimit -Hn)
  [[ $limit == unlimited ]] || ((limit >= 32)) ||
    fail EP4J-8016 "a process may have $limit open files here, and ep4j needs at least 32:" \
      "raise the limit (ulimit -n), or ask the administrator to"
}

# Ends the script unless a JVM starts with the heap EP4J_HEAP: with less it runs out of memory early, and more
# it cannot reserve. Both end in messages of the JVM that name neither the variable nor a code.
require_heap() {
  local unit=0
  if [[ ${EP4J_HEAP:-1g} =~ ^([1-9][0-9]{0,14})([kKmMgGtT]?)$ ]]; then
    case ${BASH_REMATCH[2]} in
      [kK]) unit=10 ;;
      [mM]) unit=20 ;;
      [gG]) unit=30 ;;
      [tT]) unit=40 ;;
    esac
    ((BASH_REMATCH[1] < (64 << 20 >> unit) || BASH_REMATCH[1] > (64 << 40 >> unit))) || return 0
  fi
  usage_error EP4J-1006 "EP4J_HEAP = $EP4J_HEAP; it must be a size from 64m to 64t, such as 8g: correct the variable or unset it"
}

# Prints the feature version of the JDK in directory $1, from its release file; 0 if $1 has no JDK.
feature_version() {
  local line
  if [[ -x $1/bin/java && -r $1/release ]]; then
    while IFS= read -r line; do
      if [[ $line =~ ^JAVA_VERSION=\"([0-9]+) ]]; then
        echo "${BASH_REMATCH[1]}"
        return
      fi
    done <"$1/release"
  fi
  echo 0
}

# Prints the directory of the first JDK that is new enough.
find_jdk() {
  local home java
  if [[ -n ${EP4J_JAVA_HOME:-} ]]; then
    (($(feature_version "$EP4J_JAVA_HOME") >= NEEDED_JDK)) ||
      fail EP4J-8100 "EP4J_JAVA_HOME = $EP4J_JAVA_HOME holds no JDK $NEEDED_JDK or newer: correct it"
    echo "$EP4J_JAVA_HOME"
    return
  fi
  local candidates=()
  [[ -n ${JAVA_HOME:-} ]] && candidates+=("$JAVA_HOME")
  if java=$(command -v java); then
    candidates+=("$(dirname "$(dirname "$(readlink -f "$java")")")")
  fi
  candidates+=(/usr/lib/jvm/* /usr/java/* /opt/*jdk* /opt/java/*)
  # A container may run as a user without a home.
  [[ -z ${HOME:-} ]] || candidates+=("$HOME"/.sdkman/candidates/java/* "$HOME"/.jdks/*)
  for home in "${candidates[@]}"; do
    if (($(feature_version "$home") >= NEEDED_JDK)); then
      echo "$home"
      return
    fi
  done
  fail EP4J-8100 \
    "no JDK $NEEDED_JDK or newer in EP4J_JAVA_HOME, JAVA_HOME, PATH or the usual directories." \
    "Install one (for example the package temurin-$NEEDED_JDK-jdk or openjdk-$NEEDED_JDK-jdk), or set" \
    "EP4J_JAVA_HOME to its directory."
}

# Runs Maven on the JDK in directory $1. The first two options silence warnings of JDK 24 and later about
# libraries of Maven. The third keeps those libraries from printing escape codes without a terminal.
maven_on() {
  local options="--enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow"
  options+=" -Djansi.noreset=true"
  JAVA_HOME=$1 MAVEN_OPTS="$options ${MAVEN_OPTS:-}" \
    mvn --batch-mode -Dstyle.color=never "${@:2}"
}
