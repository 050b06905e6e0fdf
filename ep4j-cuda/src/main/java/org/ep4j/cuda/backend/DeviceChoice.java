package org.ep4j.cuda.backend;

import java.util.Map;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;

/** The device of a rank: the ranks of a host use its devices round-robin. */
public final class DeviceChoice {
  /** Environment variable with the device of this process. */
  public static final String VARIABLE = "EP4J_CUDA_DEVICE";

  private DeviceChoice() {}

  /** The ordinal for this rank of a group, in this process. */
  public static int ordinal(Group group) {
    return ordinal(group.rank(), group.inProcess(), System.getenv(), CudaDevice.count());
  }

  /**
   * The ordinal for a rank.
   *
   * @param inProcess whether the ranks are threads: variables, which apply to the whole process,
   *     are then ignored
   * @param devices number of visible devices, at least 1
   */
  static int ordinal(int rank, boolean inProcess, Map<String, String> variables, int devices) {
    if (inProcess) {
      return rank % devices;
    }
    String wanted = variables.getOrDefault(VARIABLE, "");
    return wanted.isBlank()
        ? LaunchEnvironment.localRank(variables).orElse(rank) % devices
        : number(wanted);
  }

  private static int number(String text) {
    try {
      return Integer.parseUnsignedInt(text.strip());
    } catch (NumberFormatException e) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_DEVICE,
          VARIABLE,
          "'" + text + "'",
          "a number",
          "unset it, or name a device");
    }
  }
}
