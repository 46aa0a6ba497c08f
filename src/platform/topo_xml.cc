#include "platform/topo_xml.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "platform/xml.h"

namespace tc::platform {
namespace {

// "00000000,0000ffff" to "0-15": groups of 32 processors, the last group first.
std::optional<std::string> CpuList(const std::string& affinity) {
  std::vector<uint32_t> words;
  for (size_t at = 0; at <= affinity.size();) {
    const size_t comma = std::min(affinity.find(',', at), affinity.size());
    const std::optional<uint32_t> word = ParseHex(std::string_view(affinity).substr(at, comma - at));
    if (!word) return std::nullopt;
    words.insert(words.begin(), *word);
    at = comma + 1;
  }
  const size_t n = words.size() * 32;
  const auto has = [&](size_t cpu) { return cpu < n && (words[cpu / 32] >> cpu % 32 & 1) != 0; };
  std::string list;
  for (size_t first = 0; first < n; ++first) {
    if (!has(first)) continue;
    size_t last = first;
    while (has(last + 1)) ++last;
    if (!list.empty()) list += ',';
    list += std::to_string(first);
    if (last > first) list.append("-").append(std::to_string(last));
    first = last;
  }
  return list;
}

class TopologyBuilder {
 public:
  explicit TopologyBuilder(Topology* topology) : topology_(*topology) {}

  Status Build(const XmlElement& system) {
    if (system.name != "system") {
      return Wrong(system, "the first element is <%s>; it must be <system>", system.name.c_str());
    }
    for (const XmlElement& cpu : system.children) {
      if (cpu.name == "cpu") TC_RETURN_IF_ERROR(AddCpu(cpu));
    }
    std::stable_sort(order_.begin(), order_.end());
    std::vector<Gpu> sorted;
    for (const auto& [number, gpu] : order_) sorted.push_back(std::move(topology_.gpus[gpu]));
    topology_.gpus = std::move(sorted);
    for (Gpu& gpu : topology_.gpus) {
      for (NvLink& link : gpu.nvlinks) {  // an old file does not say of what class the target is
        const bool to_gpu = std::any_of(topology_.gpus.begin(), topology_.gpus.end(),
                                        [&](const Gpu& other) { return other.address == link.address; });
        if (to_gpu) link.end = NvLinkEnd::kGpu;
      }
    }
    return {};
  }

 private:
  template <class... Args>
  static Status Wrong(const XmlElement& element, const char* format, Args... args) {
    return Error(tcInvalidArgument, "line %d: %s", element.line, Format(format, args...).c_str());
  }

  // What `parse` makes of an attribute. One that is missing leaves *value as it is, unless it must be there.
  template <class Value, class Parse>
  static Status Read(const XmlElement& element, const char* key, bool must, const Parse& parse, Value* value) {
    const std::string* text = element.Attribute(key);
    if (text == nullptr) {
      return must ? Wrong(element, "<%s> has no attribute %s", element.name.c_str(), key) : Status();
    }
    const auto parsed = parse(*text);
    if (!parsed) {
      return Wrong(element, "<%s> has %s=\"%s\", which cannot be read", element.name.c_str(), key, text->c_str());
    }
    *value = static_cast<Value>(*parsed);
    return {};
  }

  Status AddCpu(const XmlElement& cpu) {
    NumaNode node{-1, "", {}};
    TC_RETURN_IF_ERROR(Read(cpu, "numaid", true, ParseInt, &node.number));
    TC_RETURN_IF_ERROR(Read(cpu, "affinity", false, CpuList, &node.cpus));
    const bool known = std::any_of(topology_.nodes.begin(), topology_.nodes.end(),
                                   [&](const NumaNode& other) { return other.number == node.number; });
    if (known) return Wrong(cpu, "a second <cpu> with numaid=\"%d\"", node.number);
    topology_.nodes.push_back(node);
    for (const XmlElement& child : cpu.children) {
      if (child.name == "pci") TC_RETURN_IF_ERROR(AddPci(child, node.number, -1));
    }
    return {};
  }

  Status AddPci(const XmlElement& pci, int numa, int parent) {
    std::string address;
    TC_RETURN_IF_ERROR(Read(pci, "busid", true, ParsePciAddress, &address));
    if (!addresses_.insert(address).second) return Wrong(pci, "a second <pci> with busid=\"%s\"", address.c_str());
    uint32_t class_code = 0, vendor = kNvidia;
    TC_RETURN_IF_ERROR(Read(pci, "class", false, ParseHex, &class_code));
    TC_RETURN_IF_ERROR(Read(pci, "vendor", false, ParseHex, &vendor));
    PciLink link;
    TC_RETURN_IF_ERROR(Read(pci, "link_speed", false, ParseGtS, &link.gt_s));
    TC_RETURN_IF_ERROR(Read(pci, "link_width", false, ParseInt, &link.width));
    if (link.width < 0 || link.width > 32) return Wrong(pci, "<pci> has link_width=\"%d\"", link.width);
    const auto find = [&pci](const char* name) {
      return std::find_if(pci.children.begin(), pci.children.end(),
                          [name](const XmlElement& child) { return child.name == name; });
    };
    // A file that a provider wrote has a GPU's place and class only; NCCL adds the rest when it runs.
    const auto gpu = find("gpu");
    if (gpu != pci.children.end() || (vendor == kNvidia && IsDisplay(class_code))) {
      return AddGpu(pci, gpu != pci.children.end() ? &*gpu : nullptr, address, link, numa, parent);
    }
    if (find("pci") == pci.children.end()) return {};  // a network card, or a switch with nothing below it
    const int bridge = static_cast<int>(topology_.bridges.size());
    topology_.bridges.push_back({address, parent, 2, link, {}, {}});
    for (const XmlElement& child : pci.children) {
      if (child.name == "pci") TC_RETURN_IF_ERROR(AddPci(child, numa, bridge));
    }
    return {};
  }

  Status AddGpu(const XmlElement& pci, const XmlElement* gpu, const std::string& address, const PciLink& link, int numa,
                int parent) {
    Gpu added;
    added.address = address;
    added.host_bridge = Format("cpu %d", numa);
    added.numa = numa;
    added.parent = parent;
    added.now = link;
    int number = static_cast<int>(topology_.gpus.size());
    if (gpu != nullptr) {
      TC_RETURN_IF_ERROR(Read(*gpu, "dev", false, ParseInt, &number));
      for (const XmlElement& child : gpu->children) {
        if (child.name == "nvlink") TC_RETURN_IF_ERROR(AddNvLink(child, &added));
      }
    }
    for (const auto& [other, index] : order_) {
      if (other == number) return Wrong(pci, "a second GPU with the number %d", number);
    }
    order_.emplace_back(number, topology_.gpus.size());
    topology_.gpus.push_back(std::move(added));
    return {};
  }

  Status AddNvLink(const XmlElement& nvlink, Gpu* gpu) {
    NvLink link{NvLinkEnd::kSwitch, "", 0};
    uint32_t class_code = 0x068000;
    TC_RETURN_IF_ERROR(Read(nvlink, "target", true, ParsePciAddress, &link.address));
    TC_RETURN_IF_ERROR(Read(nvlink, "count", true, ParseInt, &link.count));
    TC_RETURN_IF_ERROR(Read(nvlink, "tclass", false, ParseHex, &class_code));
    if (link.count < 1 || link.count > 1024) return Wrong(nvlink, "<nvlink> has count=\"%d\"", link.count);
    if (class_code >> 8 != 0x0680) link.end = IsDisplay(class_code) ? NvLinkEnd::kGpu : NvLinkEnd::kOther;
    gpu->nvlinks.push_back(std::move(link));
    return {};
  }

  Topology& topology_;
  std::set<std::string> addresses_;
  std::vector<std::pair<int, size_t>> order_;  // a GPU's number, and its place in topology_.gpus
};

}  // namespace

Status ParseTopoXml(const std::string& text, Topology* topology) {
  *topology = {};
  XmlElement root;
  TC_RETURN_IF_ERROR(ParseXml(text, &root));
  return TopologyBuilder(topology).Build(root);
}

Status ReadTopoXml(const std::string& path, Topology* topology) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error(tcInvalidArgument, "the topology file %s cannot be opened", path.c_str());
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return Error(tcInvalidArgument, "the topology file %s cannot be read", path.c_str());
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMostBytes) return Error(tcInvalidArgument, "the topology file %s is too large", path.c_str());
  if (const Status parsed = ParseTopoXml(text, topology); !parsed.ok()) {
    return Error(parsed.code(), "the topology file %s, %s", path.c_str(), parsed.sentence().c_str());
  }
  topology->source = "the topology file " + path;
  return {};
}

}  // namespace tc::platform
