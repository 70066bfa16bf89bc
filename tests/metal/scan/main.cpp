// mslx_scan [--check] < preprocessed.msl > kernel.cpp; --check leaves out the table of kernels. Fails on errors.
#include <iostream>
#include <sstream>

#include "scan.h"

int main(int argc, char** argv) {
  std::stringstream source;
  source << std::cin.rdbuf();
  mslx::Scan scan(source.str());
  std::cout << scan.output(!(argc > 1 && std::string(argv[1]) == "--check"));
  return scan.errors() ? 1 : 0;
}
