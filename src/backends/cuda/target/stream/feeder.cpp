// What the warps that serve a block do for the ring: one lists what it will ask for, one thread of another asks.
#include "backends/cuda/target/stream/machine.h"

namespace npusim::cuda {

std::string_view stream_feeder() {
  return R"(
// What a block will ask for, in lists of up to `list_length` pieces, of which some are made while another is gone
// through. Of a piece: its place in memory; the bytes of its two halves, of up to four lines each, and whether it is the last of
// its list; where lines do not lie one behind the other, how far apart they are and their bytes, in words of 16 bytes.
// Of a chunk of keys the place of its values stands in the words of bytes and of what is apart, and whether it is one of
// several. A piece of nothing ends all.
enum {
  half_bits = 14,
  ends_list = 1 << 2 * half_bits,
  lists_keys = ends_list << 1,
  lists_several = ends_list << 2,
  apart_bits = 20
};
struct Lists {
  uint4* at;
  unsigned long long *made, *gone;
  int list;
  unsigned phase;
};
__device__ __forceinline__ void advance(Lists& l) {
  if (++l.list == list_count) l.list = 0, l.phase ^= 1;
}

// By a warp: the pieces of lines of so many elements.
__device__ __forceinline__ void list_pieces(Lists& l, const char* matrix, const int lines, const int depth) {
  const int lane = threadIdx.x % 32, parts = (depth + slot_depth - 1) / slot_depth;
  const int pieces = (lines + 7) / 8 * parts;
#pragma unroll 1
  for (int first = 0; first < pieces; first += list_length) {
    const int piece = first + lane, tile = piece / parts, k = (piece - tile * parts) * slot_depth;
    const int count = min(8, lines - tile * 8), line = min(slot_depth, depth - k) * 2;
    const unsigned long long from = (unsigned long long)(matrix + ((long long)tile * 8 * depth + k) * 2);
    const unsigned bytes = min(count, 4) * line | max(count - 4, 0) * line << half_bits;
    const bool last = lane == list_length - 1 || piece == pieces - 1;
    mbarrier_wait(&l.gone[l.list], l.phase ^ 1);
    if (lane < list_length && piece < pieces)
      l.at[l.list * list_length + lane] = {(unsigned)from, (unsigned)(from >> 32), bytes | (last ? ends_list : 0),
                                           depth > slot_depth ? depth / 8 | line / 16 << apart_bits : 0u};
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&l.made[l.list]);
    advance(l);
  }
}
// How far apart, in bytes, batches and rows are.
struct KeyPlaces {
  long long key_batch;
  int key_apart;
  long long value_batch;
  int value_apart;
};
// By a warp: the chunks of keys and values of the block's splits of an attention.
__device__ __forceinline__ void list_keys(Lists& l, const Keys& k, const KeyPlaces& p, const char* keys,
                                          const char* values) {
  const int lane = threadIdx.x % 32;
  const bool several = has_several(k);
#pragma unroll 1
  for (int item = blockIdx.x; item < k.batches * k.splits; item += gridDim.x) {
    const int batch = item / k.splits, split = item % k.splits;
    Chunks c = chunks_of(seen_of(k, item), k.count, split, k.splits);
    int n = next_chunk(c);
#pragma unroll 1
    while (n < c.count) {
      int first = 0, some = 0;
      for (; some < list_length && n < c.count; n = next_chunk(c), ++some)
        if (lane == some) first = (split + n * k.splits) * chunk_keys;
      mbarrier_wait(&l.gone[l.list], l.phase ^ 1);
      if (lane < some) {
        const auto key = (unsigned long long)(keys + batch * p.key_batch + (long long)first * p.key_apart);
        const auto value = (unsigned long long)(values + batch * p.value_batch + (long long)first * p.value_apart);
        l.at[l.list * list_length + lane] = {
            (unsigned)key, (unsigned)(key >> 32),
            (unsigned)(value >> 32) | lists_keys | (several ? lists_several : 0) | (lane == some - 1 ? ends_list : 0),
            (unsigned)value};
      }
      __syncwarp();
      if (lane == 0) mbarrier_arrive(&l.made[l.list]);
      advance(l);
    }
  }
}
__device__ __forceinline__ void end_lists(Lists& l) {
  if (threadIdx.x % 32 != 0) return;
  mbarrier_wait(&l.gone[l.list], l.phase ^ 1);
  l.at[l.list * list_length] = {0, 0, 0, 0};
  mbarrier_arrive(&l.made[l.list]);
}

// `once`: the cache gives it up before all else.
template <bool once>
__device__ __forceinline__ void copy_piece(char* to, const char* from, const int bytes, unsigned long long* full) {
  if (once)
    copy_bulk_once(to, from, bytes, full);
  else
    copy_bulk(to, from, bytes, full);
}
// What the thread that asks has: the ring, and when it asked last.
struct Requests {
  Ring ring;
  unsigned last;
};
// Before half a piece of so many bytes is asked for, until `requests_at_once` are under way with it at most, and clocks
// have gone by since the last one, by the bytes `request_gap` for half a slot: where the ring had no room several would go
// at once, and delay what the block publishes then. Barriers that nothing has come to are over for the phase before the
// first.
__device__ __forceinline__ void wait_for_turn(Requests& q, const int half, const unsigned bytes) {
  const Ring& r = q.ring;
  const int older = 2 * r.slot + half - requests_at_once;
  mbarrier_wait(&r.full[older < 0 ? older + 2 * r.count : older], older < 0 ? r.phase ^ 1 : r.phase);
  if (request_gap == 0) return;
  const unsigned gap = bytes * request_gap / (slot_bytes / 2);
  while (clocks() - q.last < gap) pause();
  q.last = clocks();
}
__device__ __forceinline__ void request_half(Requests& q, const int half, char* to, const char* from, int bytes,
                                             const unsigned apart) {
  unsigned long long* const full = &q.ring.full[2 * q.ring.slot + half];
  mbarrier_expect(full, bytes);
  if (bytes == 0) return;
  wait_for_turn(q, half, bytes);
  if (apart == 0) return copy_piece<weights_read_once>(to, from, bytes, full);
  const int line = (apart >> apart_bits) * 16;
#pragma unroll 1
  for (; bytes > 0; bytes -= line, to += line, from += (apart & (1 << apart_bits) - 1) * 16LL)
    copy_piece<weights_read_once>(to, from, line, full);
}
// A chunk's rows of so many bytes, of keys or of values, with a pad behind each.
template <int bytes, int apart, int pad, bool once>
__device__ __forceinline__ void request_rows(Requests& q, const int half, char* to, const char* from) {
  unsigned long long* const full = &q.ring.full[2 * q.ring.slot + half];
  mbarrier_expect(full, chunk_keys * bytes);
  wait_for_turn(q, half, chunk_keys * bytes);
  if (apart == bytes && pad == 0) return copy_piece<once>(to, from, chunk_keys * bytes, full);
#pragma unroll 8
  for (int key = 0; key < chunk_keys; ++key)
    copy_piece<once>(to + key * (bytes + pad), from + (long long)key * apart, bytes, full);
}
// By one thread: asks for all that is listed, as far ahead as the ring has room, with few requests under way at once.
__device__ __forceinline__ void feed(const Ring& ring, Lists l) {
  Requests q = {ring, clocks() - request_gap};  // the first one need not wait
  Ring& r = q.ring;
#pragma unroll 1
  while (true) {
    mbarrier_wait(&l.made[l.list], l.phase);
    const uint4* next = l.at + l.list * list_length;
    uint4 piece = *next;
    if (piece.z == 0) return;
#pragma unroll 1
    while (true) {
      const char* const from = (const char*)(piece.x | (unsigned long long)piece.y << 32);
      const bool of_keys = key_bytes && piece.z & lists_keys, several = piece.z & lists_several;
      const unsigned beside = piece.z & ends_list - 1;
      const int first = piece.z & (1 << half_bits) - 1, second = piece.z >> half_bits & (1 << half_bits) - 1;
      char* const to = r.slots + r.slot * slot_bytes;
      const unsigned apart = piece.w;
      const bool last = piece.z & ends_list;
      if (!last) piece = *++next;
      mbarrier_wait(&r.empty[r.slot], r.phase ^ 1);
      if (of_keys) {
        const char* const values = (const char*)(apart | (unsigned long long)beside << 32);
        char* const behind = to + chunk_keys * key_bytes;
        if (several) {  // they come by too seldom for the cache to keep them
          request_rows<key_bytes, key_apart, 0, true>(q, 0, to, from);
          request_rows<value_bytes, value_apart, 0, true>(q, 1, behind, values);
        } else {
          request_rows<key_bytes, key_apart, 0, false>(q, 0, to, from);
          request_rows<value_bytes, value_apart, value_pad, false>(q, 1, behind, values);
        }
      } else {
        request_half(q, 0, to, from, first, apart);
        const long long behind = apart == 0 ? first : (apart & (1 << apart_bits) - 1) * 64LL;
        request_half(q, 1, to + first, from + behind, second, apart);
      }
      advance(r.slot, r.phase, r.count);
      if (last) break;
    }
    mbarrier_arrive(&l.gone[l.list]);
    advance(l);
  }
}
)";
}

}  // namespace npusim::cuda
