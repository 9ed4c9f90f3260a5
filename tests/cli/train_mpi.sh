# Ranks that are processes give the bits of ranks that are threads, at every stage, and hold what
# was planned (a run that does not fails).
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"
source "$(dirname "${BASH_SOURCE[0]}")/mpi_common.inc"

same() {  # RANKS FLAG...
  local ranks=$1
  shift
  "$train" "${tiny[@]}" --steps 4 --ranks "$ranks" --json threads "$@"
  mpi "$ranks" "$train" "${tiny[@]}" --steps 4 --json processes "$@" >out || fail "$ranks, $*"
  same_bits processes threads "$ranks processes, $*"
}

for stage in 0 1 2 3; do
  same 4 --stage $stage --dtype bf16 --accumulation 2
  same 2 --stage $stage --set runtime.reproducible=true \
    --set zero_optimization.stage3_param_persistence_threshold=0
done
same 2 --stage 3 --set zero_optimization.overlap_comm=false --dtype fp16

# Rank 0 alone prints, and for all of them.
mpi 2 "$train" "${tiny[@]}" --steps 1 --json - >out 2>/dev/null
[[ $(grep -c '"type":"final"' out) == 1 ]] || fail "final lines: $(cat out)"
[[ $(grep -c '"type":"memory"' out) == 2 ]] || fail "memory lines: $(cat out)"

# --ranks may only say what is so.
mpi 2 "$train" "${tiny[@]}" --steps 1 --ranks 2 >out
mpi 2 "$train" "${tiny[@]}" --steps 1 --ranks 3 >out 2>err && fail "--ranks 3 with 2 processes"
grep -q -- '--ranks is 3, and 2 processes' err || fail "$(cat err)"

# What is not in the configuration has to be the same, too.
sed 's/cat/dog/' text.txt >other.txt
differ() {  # TEXT FLAG...: what rank 1 is told; rank 0 is told the usual
  local text=$1
  shift
  mpi 1 "$train" "${tiny[@]}" --steps 1 : -n 1 "$train" "$@" --steps 1 >out 2>err &&
    fail "accepted: $*"
  grep -qF -- "$text" err || fail "$*: $(cat err)"
}
differ '--seed is 1 on rank 0 and 7 on rank 1' "${tiny[@]}" --seed 7
differ '--context is 12 on rank 0 and 8 on rank 1' "${tiny[@]/#12/8}"
differ 'the xxh3 of --data is ' "${tiny[@]/#text.txt/other.txt}"

# Processes that nothing connects are refused, by name.
refused() {  # TEXT VARIABLE...
  local text=$1
  shift
  env "$@" "$train" "${tiny[@]}" --steps 1 >out 2>err && fail "accepted $*"
  grep -qF -- "$text" err || fail "$*: $(cat err)"
}
refused mpirun RANK=1 WORLD_SIZE=4 MASTER_ADDR=localhost
refused 'srun --mpi=pmix' SLURM_PROCID=0 SLURM_NTASKS=4
refused WORLD_SIZE RANK=0
