package org.ep4j.moe;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.OptionalInt;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.execution.Execution;
import org.ep4j.moe.gpu.LayerDevice;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The host engine behind tensors of an {@link EmulatedDevice}, whose memory is that of the host:
 * the operations of a real engine, as those of GPUs. Tensors of calls become host tensors over the
 * same memory, those of results device tensors, except the counts that engines of GPUs keep on the
 * host.
 */
final class DeviceTensors implements InvocationHandler {
  private final Object original;
  private final LayerDevice device;

  private DeviceTensors(Object original, LayerDevice device) {
    this.original = original;
    this.device = device;
  }

  /** The operations, each after the work of the device's main queue, in which a layer runs them. */
  static ExpertBuffer over(ExpertBuffer host, LayerDevice device) {
    return wrapped(ExpertBuffer.class, host, device);
  }

  private static <T> T wrapped(Class<T> type, Object original, LayerDevice device) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(), new Class<?>[] {type}, new DeviceTensors(original, device)));
  }

  @Override
  public @Nullable Object invoke(Object proxy, Method method, Object @Nullable [] arguments)
      throws Throwable {
    if (method.getName().equals("deviceOrdinal")) {
      return OptionalInt.of(0);
    }
    if (method.isDefault() && original instanceof ExpertBuffer) {
      // It calls a method of this proxy.
      return InvocationHandler.invokeDefault(proxy, method, arguments);
    }
    if (original instanceof ExpertBuffer) {
      device.main().await();
    }
    Object[] given =
        arguments == null ? null : Arrays.stream(arguments).map(DeviceTensors::argument).toArray();
    try {
      return result(method, method.invoke(original, given));
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private static @Nullable Object argument(@Nullable Object given) {
    return switch (given) {
      case Tensor tensor -> onHost(tensor);
      case Tokens tokens -> new Tokens(onHost(tokens.x()), orNull(tokens.scales()), null);
      case Routing routing ->
          new Routing(
              onHost(routing.topkIdx()),
              orNull(routing.topkWeights()),
              orNull(routing.logicalIdx()));
      case Execution _ -> Execution.SYNCHRONOUS;
      case DispatchOptions options -> options.toBuilder().execution(Execution.SYNCHRONOUS).build();
      case CombineOptions options -> combine(options);
      case LowLatencyDispatchOptions options ->
          options.toBuilder().execution(Execution.SYNCHRONOUS).build();
      case LowLatencyCombineOptions options -> {
        LowLatencyCombineOptions.Builder builder =
            options.toBuilder().execution(Execution.SYNCHRONOUS);
        Tensor out = options.out();
        yield (out == null ? builder : builder.out(onHost(out))).build();
      }
      case null, default -> given;
    };
  }

  private static CombineOptions combine(CombineOptions options) {
    CombineOptions.Builder builder = options.toBuilder().execution(Execution.SYNCHRONOUS);
    if (options.order() != CombineOrder.RANK) {
      throw new AssertionError("the CUDA engine has this order for rows in its region alone");
    }
    Tensor weights = options.topkWeights();
    if (weights != null) {
      builder.topkWeights(onHost(weights));
    }
    Tensor bias = options.bias0();
    if (bias != null) {
      builder.bias(onHost(bias));
    }
    Tensor out = options.out();
    return (out == null ? builder : builder.out(onHost(out))).build();
  }

  private static @Nullable Tensor orNull(@Nullable Tensor tensor) {
    return tensor == null ? null : onHost(tensor);
  }

  static Tensor onHost(Tensor tensor) {
    if (!tensor.onDevice()) {
      throw new AssertionError("a layer on a GPU passes tensors of the GPU: " + tensor);
    }
    return Tensor.of(
        EmulatedDevice.at(tensor.address(), tensor.byteSize()), tensor.dtype(), tensor.shape());
  }

  private @Nullable Object result(Method method, @Nullable Object result) {
    if (method.getName().equals("handle")) {
      // It may be the object of the result.
      return result;
    }
    boolean counts = method.getName().matches("expertOffsets|counts|alignedCounts");
    return switch (result) {
      case Tensor tensor when counts && method.getDeclaringClass() != LowLatencyDispatch.class ->
          tensor;
      case Tensor tensor -> Tensor.ofDevice(tensor.address(), 0, tensor.dtype(), tensor.shape());
      case GroupedDispatch dispatch -> wrapped(GroupedDispatch.class, dispatch, device);
      case Combine combine -> wrapped(Combine.class, combine, device);
      case LowLatencyDispatch dispatch -> wrapped(LowLatencyDispatch.class, dispatch, device);
      case LowLatencyCombine combine -> wrapped(LowLatencyCombine.class, combine, device);
      case null, default -> result;
    };
  }
}
