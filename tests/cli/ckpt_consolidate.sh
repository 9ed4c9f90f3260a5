# zero-ckpt consolidate: read by a program that knows nothing of this library.
source "$(dirname "${BASH_SOURCE[0]}")/ckpt_common.inc"

"$train" "${tiny[@]}" --config config.json --dtype bf16 --ranks 3 --steps 3 --save-dir run > /dev/null
ends_with 0 consolidate run master.safetensors
ends_with 0 consolidate run working.safetensors --dtype working
ends_with 0 inspect run --json

python3 - <<'PYTHON' || fail "what is consolidated is not what was saved"
import glob, json, math, re, struct

def read(path):
    """Name -> (dtype, shape, bytes), by the format's own documentation."""
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    end = 0
    for name, row in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert row["data_offsets"][0] == end, (path, name)  # no holes
        end = row["data_offsets"][1]
        size = {"F32": 4, "F16": 2, "BF16": 2}[row["dtype"]]
        assert end - row["data_offsets"][0] == size * math.prod(row["shape"]), (path, name)
    assert end == len(body), path
    return {name: (row["dtype"], row["shape"], body[slice(*row["data_offsets"])])
            for name, row in header.items()}

masters = {}
for path in glob.glob("run/step-00000003/*.safetensors"):
    for name, (dtype, shape, data) in read(path).items():
        kind, param, begin = re.fullmatch(r"(\w+)/(.*)\[(\d+):\d+\]", name).groups()
        if kind == "master_weights":
            assert dtype == "F32"
            masters.setdefault(param, []).append((int(begin), data))
masters = {name: b"".join(data for _, data in sorted(pieces)) for name, pieces in masters.items()}

def rounded(data):  # fp32 to bf16, to nearest even
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return struct.pack(f"<{len(words)}H", *((w + 0x7fff + (w >> 16 & 1)) >> 16 for w in words))

params = {p["name"]: p for p in json.load(open("said"))["params"]}
master, working = read("master.safetensors"), read("working.safetensors")
assert set(master) == set(working) == set(params) == set(masters), (set(master), set(params))
for name, data in masters.items():
    assert master[name] == ("F32", params[name]["shape"], data), name
    assert working[name] == ("BF16", params[name]["shape"], rounded(data)), name

try:
    import safetensors
except ImportError:
    safetensors = None
if safetensors:
    with safetensors.safe_open("master.safetensors", framework="np") as file:
        assert set(file.keys()) == set(params)
        for name in params:
            tensor = file.get_tensor(name)
            assert list(tensor.shape) == params[name]["shape"] and tensor.tobytes() == masters[name]
PYTHON

# In the place of an older one; what cannot be written leaves that alone.
ends_with 0 consolidate run/step-00000003 master.safetensors --dtype working
cmp master.safetensors working.safetensors
mkdir folder
refused 'folder' consolidate run folder
! compgen -G '.tmp*' > /dev/null || fail "left behind: $(ls -A)"

# Nothing but a plain file is replaced, through a link the file that it leads to.
mkfifo pipe
refused 'pipe: it is no plain file' consolidate run pipe
[[ -p pipe ]] || fail "a pipe is replaced"
ln -s nowhere.safetensors dangling
ln -s pipe to_pipe
for link in dangling to_pipe; do
  refused "$link" consolidate run $link
  [[ -L $link ]] || fail "a link is replaced: $link"
done
[[ ! -e nowhere.safetensors && -p pipe ]] || fail "a link that was refused is followed"
mkdir elsewhere
cp working.safetensors elsewhere/model.safetensors
ln -s elsewhere/model.safetensors link
ends_with 0 consolidate run link
[[ -L link && $(ls -A elsewhere) == model.safetensors ]] || fail "a link: $(ls -lA . elsewhere)"
ends_with 0 consolidate run master.safetensors
cmp link master.safetensors

# Nor anything of a checkpoint, by whatever way.
cp -r run best
mv best/step-00000003 renamed
rm -r best
ln -s run/step-00000003 inside
find run renamed -type f -exec cksum {} + | sort > before
for out in run/latest run/step-00000003/manifest.json run/step-00000003/new renamed/new \
  run/step-00000003/rank-00000-of-00003.safetensors inside/new inside/../latest; do
  refused "${out##*/}" consolidate run $out
  has errors 'checkpoint'
done
mkdir renamed/below
refused 'checkpoint' consolidate renamed renamed/below/model.safetensors
find run renamed -type f -exec cksum {} + | sort > after
cmp before after || fail "a checkpoint is changed: $(diff before after)"
ends_with 0 consolidate run run/model.safetensors  # beside them it may be
cmp run/model.safetensors master.safetensors
ends_with 0 verify run

# A file of someone's own stays, whatever its name.
echo mine > .tmp-own.safetensors
ends_with 0 consolidate run own.safetensors
[[ $(cat .tmp-own.safetensors) == mine ]] || fail "another's file is overwritten"
cmp own.safetensors master.safetensors
refused 'names no file' consolidate run elsewhere/
refused 'names no file' consolidate run ''
