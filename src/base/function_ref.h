// A callable of the caller's, for the time of a call: no copy and no allocation.
#pragma once

#include <type_traits>

namespace tc {

template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Callable>
  requires(std::is_object_v<Callable> && !std::is_same_v<Callable, FunctionRef>)
      FunctionRef(const Callable& callable)  // NOLINT(google-explicit-constructor): passed like the callable itself
      : object_(&callable), call_([](const void* object, Args... args) -> Result {
          return (*static_cast<const Callable*>(object))(args...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, args...); }

 private:
  const void* object_;
  Result (*call_)(const void* object, Args... args);
};

}  // namespace tc
