package org.ep4j.cli.launch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.cli.OpenFiles;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.group.rendezvous.Rendezvous;

/** The rendezvous of a local launch, and the environment variables of its ranks. */
public final class LocalJob implements AutoCloseable {
  private static final String HERE = "127.0.0.1";
  private static final int SECRET_BYTES = 32;

  private final int ranks;
  private final Rendezvous rendezvous;
  private final int masterPort;

  private LocalJob(int ranks, Rendezvous rendezvous, int masterPort) {
    this.ranks = ranks;
    this.rendezvous = rendezvous;
    this.masterPort = masterPort;
  }

  /**
   * Hosts the rendezvous of a new job, with a new secret, on a free port.
   *
   * @param settings variables with the job's name and times
   */
  public static LocalJob open(int ranks, Map<String, String> settings) {
    OpenFiles.requireForRanks(ranks);
    byte[] secret = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(secret);
    int masterPort = freePort();
    GroupConfig config =
        LaunchEnvironment.ofAllRanks(settings)
            .size(ranks)
            .rendezvous(HERE, 0)
            .secret(HexFormat.of().formatHex(secret))
            .hostsRendezvous(false)
            .build();
    return new LocalJob(ranks, Rendezvous.open(config), masterPort);
  }

  /**
   * Variables of a rank: those of ep4j, and those of torchrun for other programs. Rank 0 of such a
   * program listens on {@code MASTER_PORT}, which is therefore a free port and not the port of the
   * rendezvous.
   */
  public Map<String, String> environment(int rank) {
    Map<String, String> variables = new LinkedHashMap<>();
    variables.putAll(LaunchEnvironment.variables(rendezvous.configOf(rank), rank));
    variables.put("RANK", String.valueOf(rank));
    variables.put("WORLD_SIZE", String.valueOf(ranks));
    variables.put("LOCAL_RANK", String.valueOf(rank));
    variables.put("LOCAL_WORLD_SIZE", String.valueOf(ranks));
    variables.put("MASTER_ADDR", HERE);
    variables.put("MASTER_PORT", String.valueOf(masterPort));
    return variables;
  }

  private static int freePort() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(HERE))) {
      return socket.getLocalPort();
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.NO_FREE_PORT.message("no free TCP port on " + HERE), e);
    }
  }

  @Override
  public void close() {
    rendezvous.close();
  }
}
