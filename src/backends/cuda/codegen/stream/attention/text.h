// How an attention's stages are printed: what its implementations share.
#pragma once
#include <string>

#include "backends/cuda/codegen/stream/facts/attention.h"
#include "backends/cuda/codegen/text.h"
#include "print/point.h"

namespace npusim::cuda::codegen::stream::attention {

class StreamAttentionText {
 public:
  StreamAttentionText(const Kernel& kernel, const facts::StreamAttention& attention, const Dialect& dialect,
                      const std::string& name)
      : k_(kernel), a_(attention), d_(dialect), name_(name), x_(attention.axes) {}
  std::string run();

 private:
  // The functions.
  void points();
  void inspect();
  void ahead();
  void parts_by_tensor_cores(const std::string& name);
  void parts_by_warps(const std::string& name);
  void choose_parts();
  void begin_ring();
  void parts_of_one(const std::string& name);
  void parts_of_several(const std::string& name);
  void keep_rows();
  void parts_by_threads();
  void merge();

  // The pointer among the kernel's read arguments.
  std::string add(int arg) const { return "in" + std::to_string(arg); }
  std::string_view type(int arg) const {
    return d_.elements[static_cast<size_t>(k_.args[static_cast<size_t>(arg)].dtype)].type;
  }
  std::string reads() const;
  void open_function(const std::string& half, const std::string& first, const std::string& kind = "");
  void open_parts(const std::string& name);
  void open_items();
  void open_chunks(const std::string& name, const Term& seen, const std::string& of_warps = "0, 1");
  Term seen_by_item() const;
  Term from_of(const Term& n) const;  // the first key of a split's chunk
  void prefetch(const Term& from, int64_t count, const Term& thread, int64_t threads);
  void prefetch_chunk(const Term& from);  // by the block
  void count_of_row();
  // How many keys the row with the most of them has; and, if asked for, how many each.
  void most_keys(bool of_rows);
  // What is read of an operand at batch z_…, and along two axes.
  Term at(const Access& a, const Axis& one, const std::string& one_name, const Axis& two,
          const std::string& two_name) const;
  // Words of keys or values of the chunk `from`, zeros behind the last key: first all reads, then the writes to the
  // block's memory.
  int64_t rounds_of(const Axis& along) const;  // words of a thread
  void read_words(const Access& a, const Axis& keys, const Axis& along, const Term& words);
  void write_words(const Axis& along, const Term& words, const Term& to, int64_t stride);

  static constexpr int64_t chunks_ahead = 4;  // in flight from memory: as many as are read at once by warps

  // Of tensor cores.
  int64_t groups() const { return (x_.rows.size() + 3) / 4; }  // of four rows
  int64_t group_rounds() const { return (groups() + 1) / 2; }  // in which two times four warps take them
  int64_t masks() const { return a_.multiplied && a_.mask >= 0 ? group_rounds() : 0; }  // of a lane
  void read_units(const Term& words, const Term& there, const Access& a, const Axis& one, const std::string& one_name);
  void find_below(DType dtype);
  void declare_sums();
  void declare_chunk();
  void read_chunk(const Term& from);
  void read_masks_of_chunk(const Term& end);
  void multiply(const Access& queries, DType dtype);
  void weigh(DType dtype);
  void publish_tiles();
  int64_t halves() const { return x_.rows.size() > 8 ? 2 : 1; }
  int64_t warp_tiles() const;
  int64_t value_pitch() const { return x_.columns.size() * 2 + facts::StreamAttention::row_pad; }

  // Of threads.
  int64_t quads() const { return x_.rows.size() * x_.columns.size() / facts::quad_columns; }  // of all results
  int64_t quad_rounds() const;  // in which the threads take them
  int64_t key_pitch() const { return x_.depth.size() * 2 + facts::StreamAttention::row_pad; }
  std::string as_float(int arg, const Term& element) const;
  void declare_memory();
  void widen_queries();
  void load_keys_and_values();
  void score_by_threads();
  void weigh_by_warps();
  void sum_by_threads();
  void publish_quads();

  // Where keys come through the ring.
  void find_rows();
  void read_masks(bool several, const Term& which);
  void open_piece();
  void read_ring_keys(const Term& words, const Term& position);
  void read_ring_values();
  void find_half();
  void leave_half();
  Term value_line(const Term& position, int64_t pitch);
  void close_piece();

  // Of warps with keys of their own.
  int64_t own_lines() const { return x_.columns.size() / 64; }
  static Term own_column(const Term& line);
  void open_own();
  void begin_own();
  void declare_own();
  void read_own_keys();
  void read_own_masks();
  void read_own_values();
  void score_own(DType dtype);
  void weigh_own(DType dtype);
  void sum_own(DType dtype);
  void prefetch_next();
  Term found_at(const Term& warp) const;
  void leave_own(const Term& at);
  void join_own();
  void publish_own();

  const Kernel& k_;
  const facts::StreamAttention& a_;
  const Dialect& d_;
  const std::string& name_;
  const AttentionAxes& x_;
  std::string functions_;
  Lines t_;
};

}  // namespace npusim::cuda::codegen::stream::attention
