package org.ep4j;

/**
 * A path over which a wire sends to another rank, and what it has sent there so far.
 *
 * @param peer the other rank
 * @param port port of this rank, {@code mlx5_0:1}
 * @param queuePair number of the queue pair among those of this rank to the peer
 * @param bytes bytes of puts handed to the device; bytes sent again on another path count again
 */
public record WirePath(int peer, String port, int queuePair, long bytes) {}
