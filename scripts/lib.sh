# Functions that ./demo and ./test share.

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

# Lines of ninja as they come on a terminal; elsewhere one per tenth, and all that is not progress.
show_progress() {
  if [ -t 2 ]; then cat >&2; return; fi
  awk '/^\[ *[0-9]+%\]/ { tenth = int(substr($0, 2) / 10); if (tenth > shown) { print "  " tenth * 10 " %"; fflush(); shown = tenth } next }
       /^ninja: no work to do/ { next } { print; fflush() }' >&2
}

configure() { # PRESET OPTION...
  mkdir -p build
  if ! cmake --preset "$@" >"build/$1.configure.log" 2>&1; then
    cat "build/$1.configure.log" >&2
    return 1
  fi
}

# Configures a preset and builds targets of it, or all.
build() { # PRESET TARGET...
  echo "building build/$1" >&2
  configure "$1" || return 1
  NINJA_STATUS='[%p] ' cmake --build --preset "$1" ${2:+--target "${@:2}"} | show_progress
}
