// One share of work for each of some threads.
#pragma once
#include <exception>

namespace npusim::cpu {

// Runs body(thread) once for every thread; the first exception thrown is thrown again after all are done.
template <typename Body>
void on_threads(int threads, Body&& body) {
  if (threads <= 1) return body(0);
  std::exception_ptr error;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int thread = 0; thread < threads; ++thread) {
    try {
      body(thread);
    } catch (...) {
#pragma omp critical(npusim_contraction_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace npusim::cpu
