# Two ranks, no accumulation: every stage, bucket size and prefetch setting gives the same bits.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

plain=()
small=(--set zero_optimization.reduce_bucket_size=700
       --set zero_optimization.allgather_bucket_size=300
       --set zero_optimization.stage3_param_persistence_threshold=0
       --set zero_optimization.stage3_prefetch_bucket_size=0)
odd=(--set zero_optimization.reduce_bucket_size=3333
     --set zero_optimization.overlap_comm=true
     --set zero_optimization.stage3_param_persistence_threshold=50
     --set zero_optimization.stage3_prefetch_bucket_size=2000)

for dtype in "${dtypes[@]}"; do
  for stage in 0 1 2 3; do
    for setting in plain small odd; do
      declare -n flags=$setting
      out=$dtype.$stage.$setting
      "$train" "${tiny[@]}" --ranks 2 --steps 8 --dtype $dtype --stage $stage "${flags[@]}" \
        --json $out
      same_bits $out $dtype.0.plain "$dtype, stage $stage, $setting"
    done
  done
done
if [[ ! -e fp32.0.plain ]]; then
  "$train" "${tiny[@]}" --ranks 2 --steps 8 --dtype fp32 --stage 0 --json fp32.0.plain
fi
bits fp32.0.plain > a
bits bf16.0.plain > b
! cmp -s a b || fail "fp32 and bf16 give the same bits: the dtype is ignored"
