// Work in child processes, so that a crash is a result.
#pragma once
#include <functional>
#include <string>

namespace npusim::test {

// Runs `work` in a child and hands each text that it sends to `take`. How the child ended: "" when `work` returned,
// else the signal or "took more than N seconds" without a text. The parent must not have started threads.
std::string in_child(int seconds, const std::function<void(const std::function<void(const std::string&)>& send)>& work,
                     const std::function<void(const std::string&)>& take);

}  // namespace npusim::test
