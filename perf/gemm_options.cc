#include "gemm_options.h"

#include <sstream>

#include "failure.h"

namespace tc::perf {
namespace {

constexpr const char* kExamples =
    "A size is a whole number; 4K is 4096, 1M is 1048576.\n"
    "Exit code: 0 all results right, 1 wrong data or a rank that failed, 2 a command line that cannot be run.\n"
    "\n"
    "  all_gather_gemm_perf -r 4 -M 256,1000 -N 512 -K 512 -d all\n"
    "  all_gather_gemm_perf -r 2,4 --shapes 4096x14336x4096,8Kx4Kx4K -d half -J report.json\n"
    "  all_gather_gemm_perf --backend cuda -g 2 -r 2 -G 10 --shapes 8Kx4Kx4K -d bfloat16\n"
    "  all_gather_gemm_perf -r 4 --a A.npy --b B.npy --out C.npy\n";

class GemmOptionsParser {
 public:
  explicit GemmOptionsParser(CLI::App& app) : common_(app) {
    m_option_ = AddList(app, "-M", m_, "Rows of the gathered a and of c");
    n_option_ = AddList(app, "-N", n_, "Columns of c on every rank");
    k_option_ = AddList(app, "-K", k_, "The summed dimension");
    shapes_option_ = app.add_option("--shapes", shapes_, "Shapes MxNxK, instead of all combinations of -M, -N and -K")
                         ->type_name("LIST");
    app.add_option("-b,--blayout", b_layout_, "nk: b is [n,k], as nn.Linear stores it; kn: b is [k,n]")
        ->type_name("nk|kn")
        ->capture_default_str();
    app.add_flag("--gathered", values_.gathered, "Also ask for the gathered a");
    app.add_flag("--registered", values_.registered, "Ask for it in registered memory; implies --gathered");
    app.add_option("--a", values_.a_path, "Your own A [M,K], a NumPy file: <f4, <f2, or bfloat16 as <u2")
        ->type_name("A.npy");
    app.add_option("--b", values_.b_path, "Your own B [N,K] ([K,N] with -b kn), the same on every rank")
        ->type_name("B.npy");
    app.add_option("--out", values_.out_path, "Where to write C [M,N]")->type_name("C.npy");
  }

  GemmOptions Values() {
    values_.common = common_.Values();
    values_.gathered = values_.gathered || values_.registered;
    if (b_layout_ != "nk" && b_layout_ != "kn") {
      throw Failure("-b/--blayout: '" + b_layout_ + "' is not a layout; there are nk and kn.");
    }
    values_.b_layout = b_layout_ == "kn" ? tcBLayoutKN : tcBLayoutNK;
    CheckOwnArrays();
    if (!values_.OwnArrays()) values_.shapes = shapes_option_->count() > 0 ? ListedShapes() : CombinedShapes();
    return values_;
  }

 private:
  static CLI::Option* AddList(CLI::App& app, const std::string& name, std::string& text, const std::string& help) {
    return app.add_option(name, text, help)->type_name("LIST")->capture_default_str();
  }

  bool DimensionsGiven() const { return m_option_->count() + n_option_->count() + k_option_->count() > 0; }

  void CheckOwnArrays() const {
    if (values_.a_path.empty() != values_.b_path.empty())
      throw Failure("--a and --b go together: one of them is missing.");
    if (!values_.OwnArrays()) {
      if (!values_.out_path.empty()) throw Failure("--out needs --a and --b: it keeps the product of your own arrays.");
      return;
    }
    if (DimensionsGiven() || shapes_option_->count() > 0 || common_.TypesGiven()) {
      throw Failure("--a and --b bring their own shape and type: leave -M, -N, -K, --shapes and -d away.");
    }
    if (values_.common.ranks.size() != 1)
      throw Failure("--a and --b run with one rank count: give -r a single number.");
  }

  static GemmShape Checked(const GemmShape& shape, const char* option) {
    if (shape.k == 0) throw Failure(std::string(option) + ": K is 0, but a product needs at least one term.");
    return shape;
  }

  std::vector<GemmShape> ListedShapes() const {
    if (DimensionsGiven()) throw Failure("--shapes takes the place of -M, -N and -K: give the one or the others.");
    std::vector<GemmShape> shapes;
    for (const std::string& text : SplitList("--shapes", shapes_, ',')) {
      const std::vector<std::string> parts = SplitList("--shapes", text, 'x');
      if (parts.size() != 3)
        throw Failure("--shapes: '" + text + "' is not a shape; write MxNxK, such as 4096x14336x4096.");
      const GemmShape shape = {ParseSize("--shapes", parts[0]), ParseSize("--shapes", parts[1]),
                               ParseSize("--shapes", parts[2])};
      shapes.push_back(Checked(shape, "--shapes"));
    }
    return shapes;
  }

  std::vector<GemmShape> CombinedShapes() const {
    std::vector<GemmShape> shapes;
    for (const size_t m : ParseSizes("-M", m_)) {
      for (const size_t n : ParseSizes("-N", n_)) {
        for (const size_t k : ParseSizes("-K", k_)) shapes.push_back(Checked({m, n, k}, "-K"));
      }
    }
    return shapes;
  }

  CommonOptionsParser common_;
  GemmOptions values_;
  std::string m_ = "1024";
  std::string n_ = "1024";
  std::string k_ = "1024";
  std::string shapes_;
  std::string b_layout_ = "nk";
  CLI::Option* m_option_ = nullptr;
  CLI::Option* n_option_ = nullptr;
  CLI::Option* k_option_ = nullptr;
  CLI::Option* shapes_option_ = nullptr;
};

}  // namespace

std::variant<GemmOptions, EarlyExit> ParseGemmOptions(const std::string& program, int argc, const char* const* argv) {
  CLI::App app("Measures and checks the fused all-gather + GEMM: c [M,N] = gathered a [M,K] x b, on every rank.",
               program);
  app.footer(kExamples);
  GemmOptionsParser parser(app);
  return ParseCommandLine(program, app, argc, argv, [&] { return parser.Values(); });
}

}  // namespace tc::perf
