// Launches made ready: code loaded, functions found, addresses bound, all of them in one graph.
#pragma once
#include <string>
#include <vector>

#include "backends/cuda/memory.h"

namespace npusim::cuda {

// How well code fits a device, 0 not at all: machine code before PTX, and of each the newest.
int fit(const Code& code, const Architecture& device);

class CudaSegment;

// A stream, and the segments that were put into it since it was last waited for, in the order of their first time.
struct Work {
  Stream stream = nullptr;
  std::vector<CudaSegment*> pending;
  size_t segments = 0;  // alive: `pending` has room for them
  // Until all is done; throws what went wrong, first what launches met. The context is current.
  void wait();
};

class CudaSegment : public Segment {
 public:
  CudaSegment(Device& device, Work& work, const StepRange& range, std::span<const Placement> placements);
  ~CudaSegment() override;
  CudaSegment(const CudaSegment&) = delete;
  CudaSegment& operator=(const CudaSegment&) = delete;
  void enqueue() override;
  void enqueue_step(size_t step) override;
  StepInfo step_info(size_t step) const override;
  bool time_steps(std::span<double> ms) override;

 private:
  friend struct Work;
  struct BoundLaunch {
    size_t first = 0;  // step
    std::string symbol;
    StepInfo info;  // of its steps
    Function function = nullptr;
    std::array<uint32_t, 3> grid, block;
    uint32_t shared_bytes = 0;
    bool together = false;
    bool early = false;  // by the code that is loaded, too
    std::vector<DevicePointer> addresses;
    std::vector<void*> parameters;  // where each address is
    int trap = -1;                  // its word; -1: nothing to report
    std::vector<std::string> traps;
  };
  struct LoadedCode {
    std::shared_ptr<const LoadedModule> module;
    std::string name;    // for messages
    bool waits = false;  // it is for an architecture on which launches wait by themselves
  };
  BoundLaunch bind(const Launch& launch, const Program& program, std::span<const Placement> placements);
  const LoadedCode& load(const Program& program, size_t number);
  void check_function(const BoundLaunch& launch) const;
  void allow_shared(const BoundLaunch& launch) const;
  void fit_together(BoundLaunch& launch) const;
  void launch(const BoundLaunch& launch, bool early) const;
  // A graph of all launches; with events, one before each launch and one behind the last.
  GraphExec record(const std::vector<Event>& events) const;
  void mark();
  void release();
  std::string take_trap();  // what the first launch met that met something; the words are cleared

  size_t first_ = 0;  // step
  Device& device_;
  Work& work_;
  std::vector<BoundLaunch> launches_;
  std::vector<LoadedCode> code_;  // by position in the program, where a launch names it
  int traps_ = 0;
  std::vector<std::unique_ptr<CudaBuffer>> own_;  // memory of launches
  std::unique_ptr<PinnedMemory> trap_words_;      // of the host, where launches leave them: no copy is behind the work
  GraphExec graph_ = nullptr;
  GraphExec timed_ = nullptr;  // made when it is first asked for, with its events
  std::vector<Event> events_;
  bool pending_ = false;
};

}  // namespace npusim::cuda
