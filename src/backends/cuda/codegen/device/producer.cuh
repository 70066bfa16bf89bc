// The producer side of the ring: one warp lists what will be copied, one thread of another one requests it.
#pragma once
#include "backends/cuda/codegen/device/machine.cuh"

// ---- producer

// What a block will ask for, in lists of up to `list_length` pieces, of which some are made while another is gone
// through. Of a piece: its address; the bytes of its two halves, of up to four lines each, and whether it is the last
// of its list; where lines do not lie one behind the other, how far apart they are and their bytes, in words of 16
// bytes. Of a chunk of keys the address of its values stands in the words of bytes and of what is apart, and whether it
// is one of several. A piece of nothing ends all.
enum {
  half_bits = 14,
  ends_list = 1 << 2 * half_bits,
  lists_keys = ends_list << 1,
  lists_several = ends_list << 2,
  apart_bits = 20
};
// Where a block has several chunks, halves of them stand one behind the other, as many as a piece has room for. A run
// is of one or two that lie together in memory: its position in the piece, its halves, all that the piece will have,
// and whether there are more. It stands above the address of its keys, and above that of a matrix's piece whether it is
// the first behind an attention, of whose keys the block may have none.
enum { run_from = 20, run_halves = 4, run_of_piece = 6, run_more = 10, run_behind = 11 };
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
__device__ __forceinline__ void list_pieces(Lists& l, const char* matrix, const int lines, const int depth,
                                            bool& behind_keys) {
  const int lane = threadIdx.x % 32, parts = (depth + slot_depth - 1) / slot_depth;
  const int pieces = (lines + 7) / 8 * parts;
#pragma unroll 1
  for (int first = 0; first < pieces; first += list_length) {
    const int piece = first + lane, tile = piece / parts, k = (piece - tile * parts) * slot_depth;
    const int count = min(8, lines - tile * 8), line = min(slot_depth, depth - k) * 2;
    const unsigned long long from = (unsigned long long)(matrix + ((long long)tile * 8 * depth + k) * 2);
    const unsigned bytes = min(count, 4) * line | max(count - 4, 0) * line << half_bits;
    const bool last = lane == list_length - 1 || piece == pieces - 1;
    const unsigned run = behind_keys && piece == 0 ? 1u << run_from + run_behind : 0;
    mbarrier_wait(&l.gone[l.list], l.phase ^ 1);
    if (lane < list_length && piece < pieces)
      l.at[l.list * list_length + lane] = {(unsigned)from, (unsigned)(from >> 32) | run, bytes | (last ? ends_list : 0),
                                           depth > slot_depth ? depth / 8 | line / 16 << apart_bits : 0u};
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&l.made[l.list]);
    advance(l);
  }
  if (pieces > 0) behind_keys = false;
}
// How far apart, in bytes, batches and rows are.
struct KeyStrides {
  long long key_batch;
  int key_apart;
  long long value_batch;
  int value_apart;
};
// By a warp: the chunks of keys and values of the block's splits of an attention.
__device__ __forceinline__ void list_keys(Lists& l, const Keys& k, const KeyStrides& p, const char* keys,
                                          const char* values) {
  const int lane = threadIdx.x % 32;
  const bool several = has_several(k);
#pragma unroll 1
  for (int item = blockIdx.x, nth = 0; item < k.batches * k.splits; item += gridDim.x, ++nth) {
    const int batch = item / k.splits, split = item % k.splits;
    Chunks c = chunks_of(seen_of(k, nth), k.count, split, k.splits);
    int left = several ? 2 * count_shown(c) : 0, position = 0, half = 0;  // halves to come; of the piece, of the chunk
    int n = next_chunk(c);
#pragma unroll 1
    while (n < c.count) {
      int first = 0, some = 0;
      unsigned run = 0;
#pragma unroll 1
      for (; some < list_length && n < c.count; ++some) {
        const int halves = several ? min(2 - half, piece_halves - position) : 2;
        const bool more = position + halves < piece_halves && halves < left;
        if (lane == some) {
          first = (split + n * k.splits) * chunk_keys + half * half_keys;
          run = position | halves << run_halves | min(position + left, piece_halves) << run_of_piece | more << run_more;
        }
        left -= halves, position = more ? position + halves : 0, half += halves;
        if (half == 2) half = 0, n = next_chunk(c);
      }
      mbarrier_wait(&l.gone[l.list], l.phase ^ 1);
      if (lane < some) {
        const auto key = (unsigned long long)(keys + batch * p.key_batch + (long long)first * p.key_apart);
        const auto value = (unsigned long long)(values + batch * p.value_batch + (long long)first * p.value_apart);
        l.at[l.list * list_length + lane] = {
            (unsigned)key, (unsigned)(key >> 32) | (several ? run << run_from : 0),
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
// State of the thread that requests: the ring, and when it did last.
struct Requests {
  Ring ring;
  unsigned last, gap;  // the one before each, for half a slot
};
// Before half a piece of so many bytes is requested: waits until at most `requests_at_once` are in flight with it, and
// for clocks since the last one, `gap` for half a slot. Else several would go at once where the ring had no room, and
// delay what the block publishes then. Barriers that nothing has come to are over for the phase before the first.
__device__ __forceinline__ void throttle(Requests& q, const int half, const unsigned bytes) {
  const Ring& r = q.ring;
  const int older = 2 * r.slot + half - requests_at_once;
  mbarrier_wait(&r.full[older < 0 ? older + 2 * r.count : older], older < 0 ? r.phase ^ 1 : r.phase);
  if (request_gap == 0) return;
  const unsigned gap = bytes * q.gap / (slot_bytes / 2);
  while (clocks() - q.last < gap) pause();
  q.last = clocks();
}
__device__ __forceinline__ void request_half(Requests& q, const int half, char* to, const char* from, int bytes,
                                             const unsigned apart) {
  unsigned long long* const full = &q.ring.full[2 * q.ring.slot + half];
  mbarrier_expect(full, bytes);
  if (bytes == 0) return;
  throttle(q, half, bytes);
  if (apart == 0) return copy_piece<weights_read_once>(to, from, bytes, full);
  const int line = (apart >> apart_bits) * 16;
#pragma unroll 1
  for (; bytes > 0; bytes -= line, to += line, from += (apart & (1 << apart_bits) - 1) * 16LL)
    copy_piece<weights_read_once>(to, from, line, full);
}
// Rows of so many bytes, of keys or of values, with a pad behind each.
template <int bytes, int apart, int pad, bool once>
__device__ __forceinline__ void request_rows(Requests& q, const int half, char* to, const char* from, const int rows) {
  unsigned long long* const full = &q.ring.full[2 * q.ring.slot + half];
  throttle(q, half, rows * bytes);
  if (apart == bytes && pad == 0) return copy_piece<once>(to, from, rows * bytes, full);
#pragma unroll 8
  for (int row = 0; row < rows; ++row)
    copy_piece<once>(to + row * (bytes + pad), from + (long long)row * apart, bytes, full);
}
__device__ __forceinline__ void expect_keys(const Ring& r, const int rows) {
  mbarrier_expect(&r.full[2 * r.slot], rows * key_bytes);
  mbarrier_expect(&r.full[2 * r.slot + 1], rows * value_bytes);
}
// By one thread: requests all that is listed, as far ahead as the ring has room, with few requests in flight at once.
__device__ __forceinline__ void produce(const Ring& ring, Lists l) {
  Requests q = {ring, clocks() - request_gap, request_gap};  // the first one need not wait
  int behind_keys = 0;                                       // pieces to come that are
  Ring& r = q.ring;
#pragma unroll 1
  while (true) {
    mbarrier_wait(&l.made[l.list], l.phase);
    const uint4* next = l.at + l.list * list_length;
    uint4 piece = *next;
    if (piece.z == 0) return;
#pragma unroll 1
    while (true) {
      const unsigned high = piece.y & (1 << run_from) - 1, run = piece.y >> run_from;
      const char* const from = (const char*)(piece.x | (unsigned long long)high << 32);
      const bool of_keys = key_bytes && piece.z & lists_keys, several = piece.z & lists_several;
      const unsigned lengths = piece.z & ends_list - 1;
      const int first = piece.z & (1 << half_bits) - 1, second = piece.z >> half_bits & (1 << half_bits) - 1;
      char* const to = r.slots + r.slot * slot_bytes;
      const unsigned apart = piece.w;
      const bool last = piece.z & ends_list;
      if (!last) piece = *++next;
      mbarrier_wait(&r.empty[r.slot], r.phase ^ 1);
      if (of_keys) {
        const char* const values = (const char*)(apart | (unsigned long long)lengths << 32);
        if (several) {  // they are read too seldom for the cache to keep them
          const int position = run & (1 << run_halves) - 1, rows = (run >> run_halves & 3) * half_keys;
          if (position == 0) expect_keys(r, (run >> run_of_piece & (1 << run_more - run_of_piece) - 1) * half_keys);
          char* const behind = to + piece_halves * half_keys * key_bytes + position * half_keys * value_bytes;
          request_rows<key_bytes, key_apart, 0, true>(q, 0, to + position * half_keys * key_bytes, from, rows);
          request_rows<value_bytes, value_apart, 0, true>(q, 1, behind, values, rows);
        } else {
          expect_keys(r, chunk_keys);
          request_rows<key_bytes, key_apart, 0, false>(q, 0, to, from, chunk_keys);
          request_rows<value_bytes, value_apart, value_pad, false>(q, 1, to + chunk_keys * key_bytes, values,
                                                                   chunk_keys);
        }
      } else {
        request_half(q, 0, to, from, first, apart);
        const long long behind = apart == 0 ? first : (apart & (1 << apart_bits) - 1) * 64LL;
        request_half(q, 1, to + first, from + behind, second, apart);
      }
      if (!(run >> run_more & 1)) advance(r.slot, r.phase, r.count);
      if (key_bytes) {
        behind_keys = run >> run_behind ? r.count : of_keys ? 0 : max(behind_keys - 1, 0);
        q.gap = behind_keys > 0 ? gap_behind_keys : request_gap;
      }
      if (last) break;
    }
    mbarrier_arrive(&l.gone[l.list]);
    advance(l);
  }
}
