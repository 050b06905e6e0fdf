package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.ep4j.cuda.driver.CudaDriver;
import org.ep4j.cuda.driver.NvJitLink;
import org.ep4j.cuda.driver.Nvrtc;
import org.ep4j.cuda.jit.CubinCache;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.NvccBackend;
import org.ep4j.group.LaunchEnvironment;

/** Each effective setting and the variable or property it came from. */
final class SettingFacts {
  private static final String TOPIC = "Settings";

  /** Variables that other parts than the group read, with their meanings. */
  private static final Map<String, String> OTHERS =
      Map.of(
          "EP4J_SHM_DIR",
          "directory of regions shared between processes",
          "EP4J_JAVA_HOME",
          "the JDK that ./ep4j uses",
          CudaDriver.LIBRARY_VARIABLE,
          "the CUDA driver library",
          Nvrtc.LIBRARY_VARIABLE,
          "the NVRTC library",
          NvccBackend.PROGRAM_VARIABLE,
          "the nvcc program",
          KernelCompiler.SHIPPED_VARIABLE,
          "directory of kernels compiled elsewhere",
          NvJitLink.LIBRARY_VARIABLE,
          "the nvJitLink library",
          CubinCache.DIRECTORY_VARIABLE,
          "directory of compiled kernels",
          CubinCache.SIZE_VARIABLE,
          "MiB of compiled kernels to keep");

  private static final String DEFAULT = "default";

  private SettingFacts() {}

  static List<Finding> look(Map<String, String> environment) {
    List<Finding> findings = new ArrayList<>();
    launcher(environment, findings);
    Set<String> defaults = Set.of("EP4J_SHM_DIR");
    new TreeMap<>(OTHERS)
        .forEach(
            (name, meaning) -> {
              String value = environment.getOrDefault(name, "");
              if (!value.isBlank()) {
                findings.add(Finding.found(TOPIC, name, value, meaning + "; from the environment"));
              } else if (defaults.contains(name)) {
                findings.add(Finding.found(TOPIC, name, "/dev/shm", meaning + "; " + DEFAULT));
              }
            });
    String bits = System.getProperty("ep4j.host.vectorBits", "");
    findings.add(
        Finding.found(
            TOPIC,
            "ep4j.host.vectorBits",
            bits.isEmpty() ? "automatic" : bits,
            bits.isEmpty() ? DEFAULT : "from the system property"));
    return findings;
  }

  private static void launcher(Map<String, String> environment, List<Finding> findings) {
    LaunchEnvironment launch;
    try {
      launch = LaunchEnvironment.of(environment);
    } catch (IllegalArgumentException e) {
      findings.add(
          Finding.warning(TOPIC, "launcher", "unusable variables", String.valueOf(e.getMessage())));
      return;
    }
    for (LaunchEnvironment.Finding finding : launch.findings()) {
      findings.add(
          Finding.found(TOPIC, finding.setting(), finding.value(), "from " + finding.source()));
    }
    if (launch.findings().isEmpty()) {
      findings.add(
          Finding.found(
              TOPIC,
              "launcher",
              launch.launcher(),
              "no rank is set: Group.fromEnvironment() is alone"));
    }
    for (String warning : launch.warnings()) {
      findings.add(Finding.warning(TOPIC, "launcher", launch.launcher(), warning));
    }
  }
}
