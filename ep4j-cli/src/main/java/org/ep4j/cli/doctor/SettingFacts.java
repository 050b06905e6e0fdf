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
import org.ep4j.engine.DebugMode;
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
   * @param allowed values that its reader accepts; {@code .*} where this report does not know them
   * @param limit these values in words
   */
  private record Variable(
      String name, String byDefault, String meaning, String allowed, String limit) {
    Variable(String name, String byDefault, String meaning) {
      this(name, byDefault, meaning, ".*", "");
    }

    Finding found(String value) {
      return value.strip().matches(allowed)
          ? Finding.found(TOPIC, name, value, "from the environment; " + meaning)
          : Finding.warning(
              TOPIC, name, value, "it must be " + limit + ": correct the variable or unset it");
    }
  }

  /** Variables of the group, which have no effect without a rank. */
  private static final List<String> OF_RANKS =
      List.of(
          "EP4J_WORLD_SIZE",
          "EP4J_RENDEZVOUS",
          "EP4J_RENDEZVOUS_EXTERNAL",
          "EP4J_SECRET",
          "EP4J_JOB",
          "EP4J_JOIN_TIMEOUT_MS",
          "EP4J_HEARTBEAT_MS",
          "EP4J_LIVENESS_MS");

  private static final List<Variable> OTHERS =
      List.of(
          new Variable(
              SymmetricMemory.DIRECTORY_VARIABLE,
              "/dev/shm",
              "directory of regions shared between processes"),
          new Variable(
              "EP4J_JOB_FILES",
              "1",
              "a file by which top finds a job; 0: none",
              "|1|0|true|false",
              "1, true, 0 or false; anything else writes no file"),
          new Variable("EP4J_HEAP", "", "the largest heap of each JVM of ./ep4j"),
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
              DeviceChoice.VARIABLE,
              "by local rank",
              "the GPU of a rank that is a process",
              "[0-9]{1,9}",
              "a number"),
          new Variable(
              KernelCompiler.SPECIAL_VARIABLE,
              "1",
              "kernels for the shape of a buffer; 0: general"),
          new Variable(
              PrebuiltKernels.LL_PACKETS_VARIABLE,
              "1",
              "packed flags: low-latency rows carry their sequence number over NVLink; 0: separate"
                  + " flags"),
          new Variable(
              ProxyConfig.THREADS_VARIABLE,
              "1",
              "proxy threads, which post the puts of a GPU",
              "[1-8]",
              "1 to 8"),
          new Variable(
              ProxyConfig.CORES_VARIABLE,
              "automatic",
              "cores of these threads",
              "none|[0-9]+( *, *[0-9]+)*",
              "numbers of cores, or none"),
          new Variable("EP4J_CUBLAS", "", "the cuBLAS library of ep4j-moe"),
          new Variable("EP4J_NCCL_GIN_CONTEXTS", "", "contexts of GIN, of the wire backend"),
          new Variable("EP4J_NCCL_GIN_COMMS", "", "communicators that have these contexts"),
          new Variable(
              DebugMode.VARIABLE,
              "false",
              "debug mode of buffers",
              "(?i)true|1|false|0",
              "true or false"));

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
        findings.add(variable.found(value));
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
    if (launch.config() == null) {
      for (String name : OF_RANKS) {
        String value = environment.getOrDefault(name, "");
        if (!value.isBlank()) {
          findings.add(
              Finding.found(
                  TOPIC,
                  name,
                  name.equals("EP4J_SECRET") ? "set" : value,
                  "from the environment; no effect, because no rank is set"));
        }
      }
    }
    for (String warning : launch.warnings()) {
      findings.add(Finding.warning(TOPIC, "launcher", launch.launcher(), warning));
    }
  }
}
