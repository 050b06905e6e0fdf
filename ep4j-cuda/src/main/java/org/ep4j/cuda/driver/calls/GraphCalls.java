package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the driver's functions for graphs. Every method throws a {@link CudaException} that
 * names the function, except those that return a result code.
 */
@SuppressWarnings("restricted") // links native functions
public final class GraphCalls {
  private static final MethodHandle GRAPH_INSTANTIATE = link(DriverFunction.GRAPH_INSTANTIATE);
  private static final MethodHandle GRAPH_LAUNCH = link(DriverFunction.GRAPH_LAUNCH);
  private static final MethodHandle GRAPH_UPLOAD = link(DriverFunction.GRAPH_UPLOAD);
  private static final MethodHandle GRAPH_EXEC_DESTROY = link(DriverFunction.GRAPH_EXEC_DESTROY);
  private static final MethodHandle GRAPH_DESTROY = link(DriverFunction.GRAPH_DESTROY);
  private static final MethodHandle GRAPH_GET_NODES = link(DriverFunction.GRAPH_GET_NODES);

  private GraphCalls() {}

  /** Creates an executable graph. */
  public static long instantiate(long graph, long flags) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) GRAPH_INSTANTIATE.invokeExact(out.address(), graph, flags);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.GRAPH_INSTANTIATE);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Launches a graph in stream order. */
  public static void launch(long exec, long stream) {
    int result;
    try {
      result = (int) GRAPH_LAUNCH.invokeExact(exec, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.GRAPH_LAUNCH);
  }

  /** Uploads an executable graph to the device. */
  public static void upload(long exec, long stream) {
    int result;
    try {
      result = (int) GRAPH_UPLOAD.invokeExact(exec, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.GRAPH_UPLOAD);
  }

  /** Destroys an executable graph. */
  public static void destroyExec(long exec) {
    int result;
    try {
      result = (int) GRAPH_EXEC_DESTROY.invokeExact(exec);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.GRAPH_EXEC_DESTROY);
  }

  /** Destroys a graph. */
  public static void destroy(long graph) {
    int result;
    try {
      result = (int) GRAPH_DESTROY.invokeExact(graph);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.GRAPH_DESTROY);
  }

  /** Writes nodes, or only their number if {@code nodes} is 0. */
  public static void nodes(long graph, long nodes, long count) {
    int result;
    try {
      result = (int) GRAPH_GET_NODES.invokeExact(graph, nodes, count);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.GRAPH_GET_NODES);
  }

  private static MethodHandle link(DriverFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(DriverLibrary.address(function), function.descriptor());
  }
}
