// For tests: a sysfs tree in a temporary directory, made from a short description. Its lines:
//   file <path> <one line>            any file
//   node <number> <cpulist> <distances>
//   dev <place> vendor= class= numa= now=<GT/s>x<lanes> most= group=<number>:<type> acs=
// A place is a path below sys/devices. acs: "none"; "user": only 64 bytes can be read; else the control register.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tc::platform {

class RecordedMachine {
 public:
  explicit RecordedMachine(const std::string& description) {
    char name[] = "/tmp/tc_machine_XXXXXX";
    root_ = ::mkdtemp(name);
    std::filesystem::create_directories(root_ / "sys/bus/pci/devices");
    std::istringstream lines(description);
    for (std::string line; std::getline(lines, line);) Add(line);
  }
  ~RecordedMachine() { std::filesystem::remove_all(root_); }
  RecordedMachine(const RecordedMachine&) = delete;
  RecordedMachine& operator=(const RecordedMachine&) = delete;

  static std::string Description(const std::string& name) {
    std::ifstream in(std::string(TC_TESTDATA) + "/" + name + ".machine");
    EXPECT_TRUE(in) << name;
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::string root() const { return root_; }
  std::filesystem::path Device(const std::string& address) const { return root_ / "sys/bus/pci/devices" / address; }

  void Write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

 private:
  void Add(const std::string& line) {
    std::istringstream words(line);
    std::string kind, name, rest;
    words >> kind >> name;
    if (kind == "file") {
      std::getline(words >> std::ws, rest);
      Write(name, rest);
    } else if (kind == "node") {
      const std::filesystem::path directory = "sys/devices/system/node/node" + name;
      words >> rest;
      Write(directory / "cpulist", rest);
      std::getline(words >> std::ws, rest);
      Write(directory / "distance", rest);
    } else if (kind == "dev") {
      AddDevice(name, words);
    }
  }

  void AddDevice(const std::filesystem::path& place, std::istringstream& words) {
    const std::filesystem::path directory = "sys/devices" / place;
    const std::string address = place.filename();
    std::filesystem::create_directories(root_ / directory);
    for (std::string word; words >> word;) {
      const std::string key = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
      const std::string before = value.substr(0, value.find_first_of("x:"));
      const std::string after = value.substr(std::min(before.size() + 1, value.size()));
      if (key == "vendor" || key == "class") {
        Write(directory / key, "0x" + value);
      } else if (key == "numa") {
        Write(directory / "numa_node", value);
      } else if (key == "now" || key == "most") {
        const std::string prefix = key == "now" ? "current" : "max";
        Write(directory / (prefix + "_link_speed"), before == "Unknown" ? "Unknown" : before + " GT/s PCIe");
        Write(directory / (prefix + "_link_width"), after);
      } else if (key == "group") {
        const std::filesystem::path group = "sys/kernel/iommu_groups/" + before;
        Write(group / "type", after);
        Write(group / "devices" / address, "");
      } else if (key == "acs") {
        std::ofstream(root_ / directory / "config", std::ios::binary) << Config(value);
      }
    }
    std::filesystem::create_symlink("../../../devices" / place, Device(address));
  }

  // An AER capability, then ACS where it is wanted.
  static std::string Config(const std::string& acs) {
    std::string bytes(acs == "user" ? 64 : 4096, '\0');
    if (acs == "user") return bytes;
    const auto put = [&bytes](size_t at, uint32_t word) {
      for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(word >> 8 * i);
    };
    put(0x100, 0x0001 | 2 << 16 | (acs == "none" ? 0 : 0x148) << 20);
    if (acs == "none") return bytes;
    put(0x148, 0x000d | 1 << 16);
    put(0x14c, 0x005f | static_cast<uint32_t>(std::stoul(acs, nullptr, 16)) << 16);
    return bytes;
  }

  std::filesystem::path root_;
};

}  // namespace tc::platform
