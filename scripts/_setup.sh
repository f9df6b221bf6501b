# Sourced by the other scripts: `set_up LEVEL` makes .venv ready, and leaves it alone when it is.
#
# Rules of this file: levels are core < dev < parity, and a richer environment serves a poorer one;
# an existing .venv is added to, never emptied or removed; uv when it works, else venv and pip;
# tools are run as `"$PYTHON" -m tool`, so that a moved checkout still works.

ROOT="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
VENV="$ROOT/.venv"
PYTHON="$VENV/bin/python"
STAMP="$VENV/.foreword-setup"

say() { printf '%s\n' "$*" >&2; }

is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  local name path
  # A Python that was asked for by name is not silently replaced by another.
  for name in ${FOREWORD_PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    path="$(command -v "$name")" || continue
    # A version manager's shim can be on PATH and still start nothing, so it is tried.
    if is_new_enough "$path"; then
      printf '%s\n' "$path"
      return 0
    fi
  done
  return 1
}

has_uv() { uv --version >/dev/null 2>&1; }

level_rank() {
  case "$1" in
    core) echo 1 ;;
    dev) echo 2 ;;
    parity) echo 3 ;;
    *) echo 0 ;;
  esac
}

# What the environment was made from: the declared dependencies and the checkout's own place.
fingerprint() {
  { cat "$ROOT/pyproject.toml" "$ROOT/uv.lock" 2>/dev/null; printf '%s' "$ROOT"; } | cksum | tr ' ' '-'
}

groups_of() {
  case "$1" in
    dev) echo dev ${EXTRA_GROUP:-} ;;
    parity) echo dev parity ${EXTRA_GROUP:-} ;;
  esac
}

# Adds one more dependency group to the environment, unless its MODULE is there already.
add_group() {
  local EXTRA_GROUP="$1" module="$2" level
  ! "$PYTHON" -c "import $module" >/dev/null 2>&1 || return 0
  read -r level _ <"$STAMP"
  say "Adding the packages of the group $EXTRA_GROUP to .venv ..."
  if has_uv && install_with_uv "$level" ""; then return 0; fi
  install_with_pip "$level" ""
}

install_with_uv() {
  local group options=(--locked --inexact --no-default-groups)
  for group in $(groups_of "$1"); do options+=(--group "$group"); done
  [ -z "$2" ] || options+=(--python "$2")
  (unset VIRTUAL_ENV && cd "$ROOT" \
    && UV_PROJECT_ENVIRONMENT="$VENV" uv sync --quiet "${options[@]}")
}

install_with_pip() {
  local requirements
  if [ ! -x "$PYTHON" ]; then
    "$2" -m venv "$VENV" || {
      say "Could not make a virtual environment with $2."
      say "On Debian or Ubuntu: apt-get install python3-venv. Or install uv."
      return 1
    }
  fi
  "$PYTHON" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m ensurepip >/dev/null || {
    say "The .venv has no pip and it can't be added. Remove .venv and run this again."
    return 1
  }
  # pip learned dependency groups late (25.1); reading them here serves every pip.
  requirements="$(cd "$ROOT" && "$PYTHON" - $(groups_of "$1") <<'PY'
import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    groups = tomllib.load(file)["dependency-groups"]
for name in sys.argv[1:]:
    print("\n".join(groups[name]))
PY
)" || return 1
  (cd "$ROOT" && printf '%s\n' "$requirements" >"$VENV/requirements.txt" \
    && "$PYTHON" -m pip install --quiet --disable-pip-version-check \
      --editable . --requirement "$VENV/requirements.txt")
}

set_up() {
  local level="$1" python="" stamped="" made_from=""
  [ ! -f "$STAMP" ] || read -r stamped made_from <"$STAMP"
  if [ "$(level_rank "$stamped")" -gt "$(level_rank "$level")" ]; then level="$stamped"; fi

  if [ -e "$VENV" ] && [ -x "$PYTHON" ] && ! is_new_enough "$PYTHON"; then
    say "The .venv here does not run, or is older than Python 3.11. Remove it and run this again."
    return 1
  fi
  if [ "$stamped" = "$level" ] && [ "$made_from" = "$(fingerprint)" ] && [ -x "$PYTHON" ]; then
    return 0
  fi

  if [ -x "$PYTHON" ]; then python="$PYTHON"; else python="$(find_python)" || python=""; fi
  if [ -z "$python" ] && ! has_uv; then
    say "foreword needs Python 3.11 or newer; none of python3.13, python3.12, python3.11, python3"
    say "is one. Install one (Debian 12: apt-get install python3 python3-venv), or install uv,"
    say "or point FOREWORD_PYTHON at one."
    return 1
  fi

  say "Setting up .venv ($level) ..."
  if has_uv && install_with_uv "$level" "$python"; then
    :
  elif [ -n "$python" ]; then
    ! has_uv || say "uv could not do it (see above); trying pip."
    install_with_pip "$level" "$python" || { say "Set-up failed."; return 1; }
  else
    say "Set-up failed: uv could not provide a Python, and there is none on this machine."
    return 1
  fi
  printf '%s %s\n' "$level" "$(fingerprint)" >"$STAMP"
}
