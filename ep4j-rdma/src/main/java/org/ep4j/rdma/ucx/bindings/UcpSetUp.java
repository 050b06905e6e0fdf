package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.Linker;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the functions of UCX that open and close objects. The caller checks a returned status,
 * see {@link UcpStatus#check}.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
public final class UcpSetUp {
  private static final MethodHandle CONFIG_READ = link(UcpFunction.CONFIG_READ);
  private static final MethodHandle CONFIG_MODIFY = link(UcpFunction.CONFIG_MODIFY);
  private static final MethodHandle CONFIG_RELEASE = link(UcpFunction.CONFIG_RELEASE);
  private static final MethodHandle INIT_VERSION = link(UcpFunction.INIT_VERSION);
  private static final MethodHandle CLEANUP = link(UcpFunction.CLEANUP);
  private static final MethodHandle CONTEXT_QUERY = link(UcpFunction.CONTEXT_QUERY);
  private static final MethodHandle WORKER_CREATE = link(UcpFunction.WORKER_CREATE);
  private static final MethodHandle WORKER_DESTROY = link(UcpFunction.WORKER_DESTROY);
  private static final MethodHandle WORKER_QUERY = link(UcpFunction.WORKER_QUERY);
  private static final MethodHandle WORKER_RELEASE_ADDRESS =
      link(UcpFunction.WORKER_RELEASE_ADDRESS);
  private static final MethodHandle WORKER_SET_AM_RECV_HANDLER =
      link(UcpFunction.WORKER_SET_AM_RECV_HANDLER);
  private static final MethodHandle EP_CREATE = link(UcpFunction.EP_CREATE);
  private static final MethodHandle EP_CLOSE = link(UcpFunction.EP_CLOSE);
  private static final MethodHandle MEM_MAP = link(UcpFunction.MEM_MAP);
  private static final MethodHandle MEM_UNMAP = link(UcpFunction.MEM_UNMAP);
  private static final MethodHandle MEM_QUERY = link(UcpFunction.MEM_QUERY);
  private static final MethodHandle RKEY_PACK = link(UcpFunction.RKEY_PACK);
  private static final MethodHandle RKEY_BUFFER_RELEASE = link(UcpFunction.RKEY_BUFFER_RELEASE);
  private static final MethodHandle EP_RKEY_UNPACK = link(UcpFunction.EP_RKEY_UNPACK);
  private static final MethodHandle RKEY_DESTROY = link(UcpFunction.RKEY_DESTROY);
  private static final MethodHandle STATUS_STRING = link(UcpFunction.STATUS_STRING);

  private UcpSetUp() {}

  /** Creates a configuration from the {@code UCX_} variables. */
  public static byte readConfig(long prefix, long file, long config) {
    try {
      return (byte) CONFIG_READ.invokeExact(prefix, file, config);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Changes a setting; {@code name} has no prefix {@code UCX_}. */
  public static byte modifyConfig(long config, long name, long value) {
    try {
      return (byte) CONFIG_MODIFY.invokeExact(config, name, value);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Releases a configuration. */
  public static void releaseConfig(long config) {
    try {
      CONFIG_RELEASE.invokeExact(config);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Creates a context. */
  public static byte init(int major, int minor, long params, long config, long context) {
    try {
      return (byte) INIT_VERSION.invokeExact(major, minor, params, config, context);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Destroys a context. */
  public static void cleanUp(long context) {
    try {
      CLEANUP.invokeExact(context);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Fills the fields of {@code attributes} that its mask names. */
  public static byte queryContext(long context, long attributes) {
    try {
      return (byte) CONTEXT_QUERY.invokeExact(context, attributes);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Creates a worker. */
  public static byte createWorker(long context, long params, long worker) {
    try {
      return (byte) WORKER_CREATE.invokeExact(context, params, worker);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Destroys a worker and its endpoints. */
  public static void destroyWorker(long worker) {
    try {
      WORKER_DESTROY.invokeExact(worker);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Fills the fields of {@code attributes} that its mask names. */
  public static byte queryWorker(long worker, long attributes) {
    try {
      return (byte) WORKER_QUERY.invokeExact(worker, attributes);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Releases an address of {@link #queryWorker}. */
  public static void releaseAddress(long worker, long address) {
    try {
      WORKER_RELEASE_ADDRESS.invokeExact(worker, address);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Sets the handler of messages. */
  public static byte setMessageHandler(long worker, long params) {
    try {
      return (byte) WORKER_SET_AM_RECV_HANDLER.invokeExact(worker, params);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Creates an endpoint. */
  public static byte createEndpoint(long worker, long params, long endpoint) {
    try {
      return (byte) EP_CREATE.invokeExact(worker, params, endpoint);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Closes an endpoint; returns a request, like {@link UcpTraffic#flush}. */
  public static long closeEndpoint(long endpoint, long params) {
    try {
      return (long) EP_CLOSE.invokeExact(endpoint, params);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Registers memory, or allocates and registers it; writes its handle. */
  public static byte mapMemory(long context, long params, long handle) {
    try {
      return (byte) MEM_MAP.invokeExact(context, params, handle);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Releases memory of {@link #mapMemory}. */
  public static byte unmapMemory(long context, long handle) {
    try {
      return (byte) MEM_UNMAP.invokeExact(context, handle);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Fills the fields of {@code attributes} that its mask names. */
  public static byte queryMemory(long handle, long attributes) {
    try {
      return (byte) MEM_QUERY.invokeExact(handle, attributes);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Writes a buffer with the remote key of memory, and its size. */
  public static byte packKey(long context, long handle, long buffer, long size) {
    try {
      return (byte) RKEY_PACK.invokeExact(context, handle, buffer, size);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Releases a buffer of {@link #packKey}. */
  public static void releaseKeyBuffer(long buffer) {
    try {
      RKEY_BUFFER_RELEASE.invokeExact(buffer);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Creates a key for puts through an endpoint. */
  public static byte unpackKey(long endpoint, long buffer, long key) {
    try {
      return (byte) EP_RKEY_UNPACK.invokeExact(endpoint, buffer, key);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Destroys a key; called by the thread of the worker of its endpoint. */
  public static void destroyKey(long key) {
    try {
      RKEY_DESTROY.invokeExact(key);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  /** Address of the text of a status. */
  static long statusText(byte status) {
    try {
      return (long) STATUS_STRING.invokeExact(status);
    } catch (Throwable t) {
      throw UcpStatus.unexpected(t);
    }
  }

  private static MethodHandle link(UcpFunction function, Linker.Option... options) {
    return Linker.nativeLinker()
        .downcallHandle(UcxLibrary.address(function), function.descriptor(), options);
  }
}
