package org.ep4j;

/**
 * A queue of work on a device, made by this or any other library: operations that are given one are
 * enqueued there and their results are ready in its order. It owns nothing.
 *
 * @param handle raw handle (a {@code CUstream}); 0 is the legacy default stream
 */
public record DeviceStream(long handle) {}
