#include "protocol/explorer/world.h"

#include <cstring>
#include <stdexcept>

#include "protocol/entry.h"
#include "protocol/epoch.h"

namespace tc::explorer {
namespace {

thread_local World* current_world = nullptr;

constexpr int kMaxThreads = 32;

std::string Indexed(const char* name, size_t index) { return std::string(name) + "[" + std::to_string(index) + "]"; }

std::string NameInEntry(size_t offset) {
  const size_t record = offset % sizeof(EntrySlot);
  const size_t field = record % sizeof(EntryRecord);
  std::string name = Indexed("entry", offset / sizeof(EntrySlot)) + Indexed(".record", record / sizeof(EntryRecord));
  if (field >= offsetof(EntryRecord, sentence)) return name + ".sentence";
  if (field >= offsetof(EntryRecord, rejected)) return name + ".rejected";
  if (field >= offsetof(EntryRecord, destination)) return name + ".destination";
  return name + (field >= offsetof(EntryRecord, shape) ? ".shape" : ".entered");
}

std::string NameInLocal(size_t offset) {
  if (offset >= offsetof(LocalBlock, gate)) return Indexed("gate", (offset - offsetof(LocalBlock, gate)) / 4);
  constexpr struct {
    size_t offset;
    const char* name;
  } kFields[] = {{offsetof(LocalBlock, finished), "finished"},
                 {offsetof(LocalBlock, round_taken), "round_taken"},
                 {offsetof(LocalBlock, round_supplied), "round_supplied"},
                 {offsetof(LocalBlock, taken), "taken"},
                 {offsetof(LocalBlock, moves_in), "moves_in"},
                 {offsetof(LocalBlock, moves), "moves"},
                 {offsetof(LocalBlock, tiles), "tiles"},
                 {offsetof(LocalBlock, dead), "dead"},
                 {offsetof(LocalBlock, verdict), "verdict"}};
  for (const auto& field : kFields) {
    if (offset >= field.offset) return field.name;
  }
  return "arrivals";
}

std::string NameInControl(size_t offset) {
  if (offset < offsetof(ControlBlock, watermark)) return NameInEntry(offset);
  if (offset >= offsetof(ControlBlock, packets)) {
    offset -= offsetof(ControlBlock, packets);
    const size_t half = offset % sizeof(PacketRow) / sizeof(PacketRow::half[0]);
    return Indexed("packets", offset / sizeof(PacketRow)) + Indexed(".half", half) +
           Indexed("", offset % sizeof(PacketRow::half[0]) / sizeof(uint64_t));
  }
  if (offset >= offsetof(ControlBlock, round)) {
    offset -= offsetof(ControlBlock, round);
    const bool taken = offset % sizeof(RoundSlot) >= offsetof(RoundSlot, taken);
    return Indexed("round", offset / sizeof(RoundSlot)) + Indexed(taken ? ".taken" : ".supplied", offset / 8 % 2);
  }
  if (offset >= offsetof(ControlBlock, acknowledgement)) {
    return Indexed("acknowledgement", (offset - offsetof(ControlBlock, acknowledgement)) / sizeof(AcknowledgementSlot));
  }
  offset -= offsetof(ControlBlock, watermark);
  return Indexed("watermark", offset / sizeof(WatermarkRow)) + Indexed(".chunk", offset % sizeof(WatermarkRow) / 8);
}

}  // namespace

World& CurrentWorld() { return *current_world; }
WorldScope::WorldScope(World& world) : before_(current_world) { current_world = &world; }
WorldScope::~WorldScope() { current_world = before_; }

void World::AddRegion(const void* begin, size_t bytes, int home, std::function<std::string(size_t)> name) {
  const auto* first = static_cast<const std::byte*>(begin);
  regions_[first] = {first, bytes, home, std::move(name)};
}

void World::AddControl(int rank, Sequence epoch) {
  auto control = std::make_shared<ControlBlock>();
  auto local = std::make_shared<LocalBlock>();
  auto abort = std::make_shared<AbortBlock>();
  local->arrivals = epoch << kArrivalBits;
  for (int writer = 0; writer < n_ranks_; ++writer) {
    EntryRecord* const records = control->entry[writer].record;
    records[epoch % 2].entered = EntryWord(epoch, false);
    records[(epoch + 1) % 2].entered = EntryWord(epoch > 0 ? epoch - 1 : 0, false);
  }
  AddRegion(control.get(), sizeof(ControlBlock), rank, NameInControl);
  AddRegion(local.get(), sizeof(LocalBlock), rank, NameInLocal);
  AddRegion(abort.get(), sizeof(AbortBlock), rank, [](size_t offset) {
    const bool left = offset % sizeof(AbortSlot) >= offsetof(AbortSlot, left);
    return Indexed("abort", offset / sizeof(AbortSlot)) + (left ? ".left" : "");
  });
  control_[rank] = control.get();
  local_[rank] = local.get();
  abort_[rank] = abort.get();
  owned_.push_back(std::move(control));
  owned_.push_back(std::move(local));
  owned_.push_back(std::move(abort));
}

RankView World::view(int rank) const {
  RankView view{.rank = rank, .n_ranks = n_ranks_, .local = local_[rank]};
  for (int peer = 0; peer < n_ranks_; ++peer) {
    view.control[peer] = control_[peer];
    view.abort[peer] = abort_[peer];
  }
  return view;
}

void World::AddThread(int rank, const std::string& name, std::function<uint64_t()> code) {
  if (threads_.size() == kMaxThreads) throw std::logic_error("too many simulated threads");
  WorldScope scope(*this);
  threads_.push_back(
      {"rank " + std::to_string(rank) + " " + name, rank, Program(std::move(code), limits_ != Limits::kNever)});
}

int World::AddBarrier(int participants) {
  barriers_.push_back(participants);
  return static_cast<int>(barriers_.size()) - 1;
}

int World::LocationOf(const void* address, size_t bytes, bool is_data) {
  const auto [at, is_new] = location_at_.try_emplace(address, static_cast<int>(locations_.size()));
  if (!is_new) {
    const Location& known = locations_[at->second];
    if (known.bytes != bytes || known.is_data != is_data) {
      throw std::logic_error(known.name + " is accessed in two ways");
    }
    return at->second;
  }
  const auto* byte = static_cast<const std::byte*>(address);
  auto region = regions_.upper_bound(byte);
  if (region == regions_.begin()) throw std::logic_error("access outside the simulated memory");
  const Region& in = (--region)->second;
  const auto offset = static_cast<size_t>(byte - in.begin);
  if (offset + bytes > in.bytes) throw std::logic_error("access outside the simulated memory");
  Location location{.name = "rank " + std::to_string(in.home) + " " + in.name(offset), .home = in.home};
  location.bytes = bytes;
  location.is_data = is_data;
  location.component = component_home_.size();
  component_home_.push_back(in.home);
  component_thread_.push_back(-1);
  component_location_.push_back(at->second);
  if (bytes <= sizeof(uint64_t)) std::memcpy(&location.initial, address, bytes);
  locations_.push_back(location);
  return at->second;
}

size_t World::AccessComponent(int thread, bool async, int home) {
  const size_t key = (static_cast<size_t>(thread) * 2 + async) * kMaxRanks + home;
  const auto [at, is_new] = access_component_.try_emplace(key, component_home_.size());
  if (is_new) {
    component_home_.push_back(home);
    component_thread_.push_back(thread);
    component_location_.push_back(-1);
  }
  return at->second;
}

uint64_t World::NumberOf(std::string_view bytes) {
  if (bytes.find_first_not_of('\0') == std::string_view::npos) return 0;
  const auto at = content_number_.find(bytes);
  if (at != content_number_.end()) return at->second;
  contents_.emplace_back(bytes);
  content_number_.emplace(bytes, contents_.size() - 1);
  return contents_.size() - 1;
}

}  // namespace tc::explorer
