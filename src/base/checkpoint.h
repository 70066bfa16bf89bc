// Files that PyTorch writes and npusim does not read: known by their first bytes, so that the message can say so.
#pragma once
#include <string>
#include <string_view>

namespace npusim {

// Whether a file that begins so is a zip archive or a pickle, as torch.save and torch.export.save write them.
bool is_pytorch_file(std::string_view bytes);

}  // namespace npusim
