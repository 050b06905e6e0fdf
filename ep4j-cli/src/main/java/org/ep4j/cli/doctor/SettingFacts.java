package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Pattern;
import org.ep4j.cuda.backend.DeviceChoice;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.compiler.NvJitLink;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.ep4j.cuda.internode.proxy.ProxyConfig;
import org.ep4j.cuda.jit.CubinCache;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.NvccBackend;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.ep4j.engine.RenamedVariables;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.memory.SymmetricMemory;

/** Each effective setting and its source, a variable or a property. */
final class SettingFacts {
  private static final String TOPIC = "Settings";

  /**
   * A variable of another part than the group.
   *
   * @param byDefault the default; empty: no default, and an unset variable is not reported
   */
  private record Variable(String name, String byDefault, String meaning) {}

  private static final List<Variable> OTHERS =
      List.of(
          new Variable(
              SymmetricMemory.DIRECTORY_VARIABLE,
              "/dev/shm",
              "directory of regions shared between processes"),
          new Variable("EP4J_JAVA_HOME", "", "the JDK that ./ep4j and programs in C use"),
          new Variable("EP4J_HOME", "", "programs in C: the bundle or clone"),
          new Variable("EP4J_JVM_OPTIONS", "", "programs in C: further options of the JVM"),
          new Variable("EP4J_MAX_TOKENS", "", "deep_ep: tokens a rank of its buffers"),
          new Variable("EP4J_RANKS_PER_NODE", "", "deep_ep: ranks of a declared node"),
          new Variable("EP4J_DEEPEP_ZERO_COPY", "", "deep_ep: results are views of the buffer"),
          new Variable(CudaDriver.LIBRARY_VARIABLE, "", "the CUDA driver library"),
          new Variable(Nvrtc.LIBRARY_VARIABLE, "", "the NVRTC library"),
          new Variable(NvccBackend.PROGRAM_VARIABLE, "", "the nvcc program"),
          new Variable(NvJitLink.LIBRARY_VARIABLE, "", "the nvJitLink library"),
          new Variable(
              KernelCompiler.SHIPPED_VARIABLE, "", "directory of kernels compiled elsewhere"),
          new Variable(CubinCache.DIRECTORY_VARIABLE, "", "directory of compiled kernels"),
          new Variable(CubinCache.SIZE_VARIABLE, "", "MiB of compiled kernels to keep"),
          new Variable(
              DeviceChoice.VARIABLE, "by local rank", "the GPU of a rank that is a process"),
          new Variable(
              KernelCompiler.SPECIAL_VARIABLE,
              "1",
              "low-latency kernels for one shape; 0: general"),
          new Variable(
              PrebuiltKernels.LL_PACKETS_VARIABLE,
              "1",
              "packed flags: low-latency rows carry their sequence number over NVLink; 0: separate"
                  + " flags"),
          new Variable(
              ProxyConfig.THREADS_VARIABLE, "1", "proxy threads, which post the puts of a GPU"),
          new Variable(ProxyConfig.CORES_VARIABLE, "automatic", "cores of these threads"));

  private static final String DEFAULT = "default";

  private static final Pattern VARIABLE = Pattern.compile("[A-Z0-9_, ]+");

  private SettingFacts() {}

  static List<Finding> look(Map<String, String> environment) {
    List<Finding> findings = new ArrayList<>();
    launcher(environment, findings);
    for (Variable variable : OTHERS) {
      String value =
          Objects.requireNonNullElse(RenamedVariables.value(environment, variable.name), "");
      if (!value.isBlank()) {
        findings.add(
            Finding.found(
                TOPIC, variable.name, value, "from the environment; " + variable.meaning));
      } else if (!variable.byDefault.isEmpty()) {
        findings.add(
            Finding.found(
                TOPIC, variable.name, variable.byDefault, DEFAULT + "; " + variable.meaning));
      }
    }
    findings.add(property("ep4j.host.vectorBits"));
    findings.add(property("ep4j.host.streaming"));
    environment.keySet().stream().sorted().forEach(name -> renamed(name, findings));
    UnreadVariables.of(environment).forEach(name -> findings.add(unread(name)));
    return findings;
  }

  /** The source in words; some values come from a variable, others from a rule. */
  private static String source(String source) {
    return VARIABLE.matcher(source).matches() ? "from " + source : source;
  }

  private static Finding property(String name) {
    String value = System.getProperty(name, "");
    return value.isEmpty()
        ? Finding.found(TOPIC, name, "automatic", DEFAULT)
        : Finding.found(TOPIC, name, value, "from the system property");
  }

  private static void renamed(String name, List<Finding> findings) {
    String newName = RenamedVariables.newName(name);
    if (newName != null) {
      findings.add(
          Finding.warning(
              TOPIC,
              name,
              "renamed",
              "set " + newName + ": the next version ignores the old name"));
    }
  }

  private static Finding unread(String name) {
    return Finding.warning(
        TOPIC, name, "has no effect", "no setting has this name: check the spelling");
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
          Finding.found(TOPIC, finding.setting(), finding.value(), source(finding.source())));
    }
    if (launch.findings().isEmpty()) {
      findings.add(
          Finding.found(
              TOPIC,
              "launcher",
              launch.launcher(),
              "no rank is set: Group.fromEnvironment() returns a group of one rank"));
    }
    for (String warning : launch.warnings()) {
      findings.add(Finding.warning(TOPIC, "launcher", launch.launcher(), warning));
    }
  }
}
