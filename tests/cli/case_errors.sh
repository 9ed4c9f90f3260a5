# zero-case on files that are wrong: a message and an exit code, never a crash, and one line for
# each file and stage.
set -euo pipefail
case="$ZERO_BIN_DIR/zero-case"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

says() {  # CODE LINES TEXT ARGUMENTS...
  local expected=$1 lines=$2 text=$3 code=0
  shift 3
  "$case" "$@" > said 2> errors || code=$?
  [[ $code == "$expected" ]] || fail "$*: exit code $code, expected $expected: $(cat said errors)"
  grep -qF -- "$text" said || fail "$*: '$text' is missing in: $(head -c 2000 said)"
  [[ $(wc -l < said) == "$lines" ]] || fail "$*: not $lines lines: $(head -c 2000 said)"
}

# A run of one step that does not hold: w becomes 1.
file() {  # NAME WORLD_SIZE STEP GROUP
  printf '{"world_size": %s, "config": {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0,
    "optimizer": {"type": "SGD", "params": {"lr": 1}}},
    "parameters": [{"name": "w", "shape": [1], "group": %s}],
    "steps": [{%s "micro_steps": [{"gradients": {"w": -1}}], "expect": {"parameters": {"w": 2}}}]}' \
    "$2" "$4" "$3" > "$1"
}
file plain 1 '' 0
says 1 4 'stage 3: phase 0 step 0 rank 0 parameters w[0]: got 1, expected 2' plain

# Whole numbers beyond their range are no other numbers.
file repeat 1 '"repeat": 2147483648,' 0
says 2 1 'at most 2147483647' repeat
for ranks in 4097 2147483648 4294967296; do
  file ranks $ranks '' 0
  says 2 1 "world_size: $ranks is not a whole number of at least 1 and at most 4096" ranks
done
file group 1 '' 4294967296
says 2 1 'parameters[0].group: 4294967296' group

# A million lists inside each other.
{ printf '{"about": '; head -c 1000000 /dev/zero | tr '\0' '['; head -c 1000000 /dev/zero | tr '\0' ']'; printf '}'; } > deep
says 2 1 'about: nested more than 64 deep' deep

# A NUL byte does not end the file.
{ cat plain; printf '\n\0 nonsense'; } > nul
says 2 1 'a NUL byte' nul

# Two problems of a configuration, one line.
echo '{"world_size": 1, "config": {"train_batch_size": 0, "gradient_cliping": 1}, "parameters": [],
       "steps": []}' > two
says 1 4 '2 problems' two
grep -q 'train_batch_size.*gradient_cliping' said || fail "both problems: $(cat said)"
says 1 4 '2 problems' two --json

# More than there is memory for. Sanitizers end the process instead of throwing.
if ! grep -q '^ZERO_SANITIZE:[A-Z]*=..*' "$ZERO_BIN_DIR/../CMakeCache.txt"; then
  echo '{"world_size": 1, "config": {}, "parameters": [{"name": "huge", "shape": [1099511627776]}],
         "steps": []}' > huge
  (ulimit -v 8000000; says 1 4 'huge: no memory for 1099511627776 elements on rank 0' huge)
fi

says 2 1 'cannot be read' no_such_file
says 2 1 'BAD FILE' .

# A device that is not there, or does not exist at all.
code=0
"$case" --device tpu plain > said 2> errors || code=$?
[[ $code == 2 ]] || fail "--device tpu: exit code $code"
grep -q 'tpu.*host.*cuda' errors || fail "--device tpu: $(cat errors)"
code=0
"$case" --device cuda plain > said 2> errors || code=$?
if grep -q '^ZERO_CUDA:[A-Z]*=EMULATE' "$ZERO_BIN_DIR/../CMakeCache.txt" || [[ $code == 1 ]]; then
  says 1 4 'stage 3: phase 0 step 0 rank 0 parameters w[0]: got 1, expected 2' --device cuda plain
else
  [[ $code == 2 && ! -s said ]] || fail "--device cuda without one: exit code $code: $(cat said)"
  grep -qE '^zero-case: --device cuda: .*(built without CUDA; configure it with|no CUDA device here: .)' errors ||
    fail "--device cuda without one: $(cat errors)"
fi

# What cannot be written is no success.
echo '{"world_size": 1, "config": {"train_batch_size": 1}, "parameters": [{"name": "w", "shape": [1]}],
       "steps": [{"micro_steps": [{"gradients": {"w": 1}}]}]}' > good
says 0 4 'stage 2' good
if [[ -c /dev/full ]]; then
  code=0
  "$case" good > /dev/full 2> errors || code=$?
  [[ $code == 1 ]] || fail "a full disk: exit code $code"
  grep -q 'could be written' errors || fail "a full disk: $(cat errors)"
fi
