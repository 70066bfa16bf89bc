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

# Lines of ninja on a terminal as they come; elsewhere one per tenth, and all that is not progress.
show_progress() {
  if [ -t 2 ]; then cat >&2; return; fi
  awk '/^\[ *[0-9]+%/ { p = $0; gsub(/[^0-9].*/, "", p); p = substr($0, 2); sub(/%.*/, "", p); p = int(p / 10)
         if (p != last) { print "  built " p * 10 "%"; fflush(); last = p } next }
       /^ninja: no work to do/ { next } { print; fflush() }' >&2
}

# Configures and builds targets of a preset; quiet when there is nothing to do.
build() { # PRESET TARGET...
  local preset=$1 log=build/$1.configure.log
  shift
  mkdir -p build
  echo "building ($preset)" >&2
  if ! cmake --preset "$preset" >"$log" 2>&1; then cat "$log" >&2 && return 1; fi
  NINJA_STATUS='[%p] ' cmake --build --preset "$preset" ${@:+--target "$@"} | show_progress
}
