# Functions that ./demo, ./test and scripts/install-packages share.

bold() { if [ -t 1 ]; then printf '\033[1m%s\033[0m' "$*"; else printf '%s' "$*"; fi; }

# The first Python that has numpy; a version manager's may come before the system's in PATH.
python_with_numpy() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import numpy' 2>/dev/null; then echo "$candidate" && return; fi
  done
  echo "error: no python3 has numpy" >&2
  return 1
}

# Whether the tests find NVRTC: in the build folder, where install-packages puts it, or among the system's libraries.
has_nvrtc() {
  [ -e "$(dirname "${BASH_SOURCE[0]}")/../build/nvrtc/libnvrtc.so.13" ] || ldconfig -p | grep -q 'libnvrtc\.so\.1[23] '
}

# From ninja's output on stdin: how far it is. A line that changes on a terminal, elsewhere one line per tenth.
show_progress() {
  local terminal=0
  if [ -t 2 ]; then terminal=1; fi
  awk -v terminal="$terminal" '
    /^\[ *[0-9]+%\]/ {
      done = substr($0, 2) + 0
      if (terminal) printf "\r  %d %%", done
      else if (int(done / 10) > shown) { shown = int(done / 10); print "  " shown * 10 " %" }
      fflush()
    }
    END { if (terminal && done) print "" }' >&2
}

configure() { # PRESET OPTION...
  mkdir -p build
  if ! cmake --preset "$@" >"build/$1.configure.log" 2>&1; then
    cat "build/$1.configure.log" >&2
    return 1
  fi
}

# Builds targets of a configured preset, or all. What the compiler says is in build/PRESET.log and shown if it fails.
build() { # PRESET TARGET...
  local log=build/$1.log
  echo "building build/$1" >&2
  if ! NINJA_STATUS='[%p] ' cmake --build --preset "$1" ${2:+--target "${@:2}"} 2>&1 | tee "$log" | show_progress; then
    grep -vE '^\[ *[0-9]+%\]' "$log" | tail -n 60 >&2
    return 1
  fi
}
