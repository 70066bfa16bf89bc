// Cuts sequences into segments, and moves what crosses from one device to another.
#include "runtime/sequence.h"

#include <algorithm>
#include <chrono>

#include "base/cancel.h"
#include "base/error.h"

namespace npusim {
namespace {

bool is_call(const Program& program, const Step& step) {
  return !step.is_transfer() && program.kernels[static_cast<size_t>(step.kernel)].call;
}

}  // namespace

ReadySequence::ReadySequence(const Program& program, const Sequence& sequence, const std::vector<Placement>& placements,
                             const Queues& queues)
    : program_(program), sequence_(sequence) {
  const auto queue_of = [&](int32_t device) { return queues[static_cast<size_t>(device)].get(); };
  const std::vector<Step>& steps = sequence.steps;
  for (size_t first = 0; first < steps.size();) {
    check_cancelled();
    const Step& step = steps[first];
    Part part = is_call(program, step) ? make_call(step, placements) : Part{};
    part.first = first;
    part.to_queue = queue_of(step.device);
    size_t& count = part.count;
    if (step.is_transfer()) {
      const auto from = static_cast<size_t>(step.buffers[0]), to = static_cast<size_t>(step.buffers[1]);
      part.from_queue = queue_of(program.buffers[from].device);
      part.from = placements[from];
      part.to = placements[to];
      part.bytes = stored_bytes(program.buffers[from]);
      if (!part.from.buffer->host() && !part.to.buffer->host()) staging_.resize(std::max(staging_.size(), part.bytes));
    } else if (!part.call) {
      const auto same = [&](const Step& s) {
        return !s.is_transfer() && s.device == step.device && !is_call(program, s);
      };
      while (first + count < steps.size() && same(steps[first + count])) ++count;
      part.segment = part.to_queue->prepare({program, sequence, first, count}, placements);
    }
    first += count;
    parts_.push_back(std::move(part));
  }
}

ReadySequence::Part ReadySequence::make_call(const Step& step, const std::vector<Placement>& placements) const {
  Part part;
  const Kernel& kernel = program_.kernels[static_cast<size_t>(step.kernel)];
  const std::string where = fmt::format("node '{}'", step_name(program_, step));
  for (const int32_t buffer : step.buffers) {
    const Placement& placement = placements[static_cast<size_t>(buffer)];
    std::byte* host = placement.buffer->host();
    if (!host)
      throw Error(ErrorKind::device,
                  {{where, fmt::format("{} is done by the host, which does not reach the memory of device {}",
                                       kernel.call->op, program_.devices[static_cast<size_t>(step.device)].target)}});
    part.args.push_back(host + placement.offset);
  }
  try {
    part.call = prepare_call(kernel);
  } catch (const Error& error) {
    throw Error(error.kind(), {{where, error.what()}});
  }
  return part;
}

void ReadySequence::call(const Part& part) {
  part.to_queue->wait();
  try {
    part.call->run(part.args);
  } catch (const Error& error) {
    throw Error(error.kind(), {{"node " + step_name(program_, sequence_.steps[part.first]), error.what()}});
  }
}

void ReadySequence::transfer(const Part& part) {
  part.from_queue->wait();
  part.to_queue->wait();
  if (std::byte* host = part.to.buffer->host()) {
    part.from_queue->download(part.from, {host + part.to.offset, part.bytes});
    part.from_queue->wait();
    return;
  }
  std::span<const std::byte> bytes;
  if (const std::byte* host = part.from.buffer->host()) {
    bytes = {host + part.from.offset, part.bytes};
  } else {
    const std::span staged = std::span(staging_).first(part.bytes);
    part.from_queue->download(part.from, staged);
    part.from_queue->wait();
    bytes = staged;
  }
  part.to_queue->upload(bytes, part.to);
  part.to_queue->wait();
}

void ReadySequence::enqueue() {
  begun_ = 0;
  for (const Part& part : parts_) {
    check_cancelled();
    ++begun_;
    if (part.segment)
      part.segment->enqueue();
    else
      enqueue(part);
  }
}

size_t ReadySequence::begun() const {
  if (begun_ == 0) return 0;
  const Part& last = parts_[begun_ - 1];
  return last.first + (last.segment ? std::min(last.count, last.segment->begun()) : 1);
}

void ReadySequence::enqueue(const Part& part) {
  if (part.call)
    call(part);
  else
    transfer(part);
}

const ReadySequence::Part& ReadySequence::part_of(size_t step) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), step,
                                      [](size_t value, const Part& part) { return value < part.first; });
  return *(after - 1);
}

void ReadySequence::enqueue_step(size_t step) {
  const Part& part = part_of(step);
  if (part.segment)
    part.segment->enqueue_step(step);
  else
    enqueue(part);
}

void ReadySequence::time_steps(std::span<double> ms) {
  using Clock = std::chrono::steady_clock;
  for (const Part& part : parts_) {
    if (part.segment && part.segment->time_steps(ms.subspan(part.first, part.count))) continue;
    for (size_t i = part.first; i < part.first + part.count; ++i) {
      check_cancelled();
      const Clock::time_point begin = Clock::now();
      enqueue_step(i);
      part.to_queue->wait();
      ms[i] = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    }
  }
}

StepInfo ReadySequence::step_info(size_t step) const {
  const Part& part = part_of(step);
  if (part.segment) return part.segment->step_info(step);
  return {part.call ? part.call->how() : "transfer", {}};
}

}  // namespace npusim
