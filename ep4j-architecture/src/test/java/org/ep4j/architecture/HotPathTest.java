package org.ep4j.architecture;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static java.util.Map.entry;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaMethod;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.instruction.MonitorInstruction;
import java.lang.reflect.AccessFlag;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import jdk.incubator.vector.Vector;
import jdk.incubator.vector.VectorMask;
import org.junit.jupiter.api.Test;

/**
 * Rule 5, as far as class files show it: the rooms that move tokens take no lock, open no stream
 * and format no string. Other tests measure that they do not allocate.
 */
class HotPathTest {
  private static final String[] TOKEN_ROOMS = {
    "org.ep4j.engine.host..",
    "org.ep4j.engine.lowlatency",
    "org.ep4j.engine.throughput",
    "org.ep4j.cuda.engine..",
    "org.ep4j.cuda.internode..",
    "org.ep4j.cuda.driver"
  };

  /** Classes of those rooms that may use streams and locks, each with the reason. */
  private static final Map<String, String> COLD_CLASSES =
      Map.of(
          "org.ep4j.cuda.engine.lowlatency.LowLatencyKernels",
          "runs while a buffer is opened",
          "org.ep4j.cuda.internode.proxy.ProxyConfig",
          "checks settings",
          "org.ep4j.cuda.driver.Launch",
          "its streams describe a launch once",
          "org.ep4j.cuda.engine.failure.FailureDiagnosis",
          "runs after a wait has failed");

  /** Methods that may enter a monitor, each with the reason. */
  private static final Map<String, String> COLD_METHODS =
      Map.ofEntries(
          entry("AbortNotices.restart", "opens a buffer, or ends a recovery"),
          entry("AbortNotices.topic", "part of a readmission"),
          entry("AbortNotices.publish", "an operation has ended early"),
          entry("AbortNotices.noticed", "another rank's operation has ended early"),
          entry("AbortNotices.report", "a wait has failed"),
          entry("AbortNotices.hasAborted", "a kernel has masked a rank"),
          entry("AbortNotices.publishClosed", "closes a buffer"),
          entry("AbortNotices.hasClosed", "a wait has already spun for long"),
          entry("AbortNotices.endWaitsAgain", "ends a recovery"),
          entry("Completion.outside", "this rank is fenced"),
          entry("FailureDiagnosis.aborted", "another rank's operation has ended early"),
          entry("Completion.throwReported", "a kernel has reported a failure"),
          entry("Completion.breakWith", "a wait has failed"),
          entry("Completion.needsReset", "a recovery has failed"),
          entry("Completion.letKernelsWait", "a recovery has failed"),
          entry("Completion.reset", "ends a recovery"),
          entry("Proxy.problem", "a wait has already spun for long"),
          entry("FailureDiagnosis.ofTimeout", "a wait has failed"),
          entry("FailureDiagnosis.exclude", "ends a recovery"),
          entry("FailureDiagnosis.noticeClosed", "a wait has already spun for long"),
          entry("FailureDiagnosis.hasClosed", "a wait has failed, or masks change"),
          entry("FailureDiagnosis.missing", "a wait has failed"),
          entry("InternodeConnection.problem", "a wait has failed"),
          entry("InternodeConnection.hasClosed", "a wait has already spun for long"),
          entry("InternodeConnection.paths", "the caller asks for statistics"),
          entry("InternodeConnection.commit", "part of a readmission"),
          entry("StaleRankFence.fenceStep", "a rank is lost"),
          entry("StaleRankFence.all", "part of a recovery"),
          entry("StaleRankFence.admit", "part of a readmission"),
          entry("StaleRankFence.by", "a wait has failed, or the caller changes masks"));

  private static final DescribedPredicate<JavaClass> COLD =
      DescribedPredicate.describe("are cold", type -> COLD_CLASSES.containsKey(type.getName()));

  /** Methods that run once in a buffer's life, not per token, and may be synchronized. */
  private static final String CLOSE = "close";

  @Test
  void roomsThatMoveTokensNeitherLockNorStreamNorFormat() {
    noClasses()
        .that()
        .resideInAnyPackage(TOKEN_ROOMS)
        .and(not(COLD))
        .should()
        .dependOnClassesThat()
        .haveNameMatching("java\\.util\\.(stream\\..*|Formatter|concurrent\\.locks\\..*Lock)")
        .orShould()
        .callMethod(String.class, "format", String.class, Object[].class)
        .orShould()
        .callMethod(String.class, "formatted", Object[].class)
        .check(Repository.CLASSES);
  }

  @Test
  void roomsThatMoveTokensEnterNoMonitor() throws IOException {
    TreeSet<String> found = new TreeSet<>();
    for (JavaClass type : Repository.CLASSES.that(resideInAnyPackage(TOKEN_ROOMS))) {
      ClassModel model = parse(type.getName());
      for (MethodModel method : model.methods()) {
        if (!method.methodName().equalsString(CLOSE) && entersMonitor(method)) {
          found.add(type.getSimpleName() + "." + method.methodName().stringValue());
        }
      }
    }
    assertThat(found)
        .as("methods that take a lock, and nothing else")
        .isEqualTo(new TreeSet<>(COLD_METHODS.keySet()));
  }

  @Test
  void coldClassesExistAndUseStreams() {
    for (String name : COLD_CLASSES.keySet()) {
      assertThat(Repository.CLASSES.get(name).getDirectDependenciesFromSelf())
          .as("an exception that is not needed: " + name)
          .anyMatch(use -> use.getTargetClass().getPackageName().equals("java.util.stream"));
    }
  }

  /**
   * C2 inlines a method of the Vector API always, one of ours by heuristics: where it does not, the
   * vector becomes an object.
   */
  @Test
  void noVectorIsAnArgumentOrAResult() {
    Set<JavaMethod> methods =
        Repository.CLASSES.stream()
            .flatMap(type -> type.getMethods().stream())
            .collect(Collectors.toSet());
    assertThat(methods).as("methods with loops over vectors").anyMatch(HotPathTest::callsVectors);
    assertThat(methods).noneMatch(HotPathTest::passesVectors);
  }

  private static boolean callsVectors(JavaMethod method) {
    return method.getMethodCallsFromSelf().stream()
        .anyMatch(call -> call.getTargetOwner().isAssignableTo(Vector.class));
  }

  private static boolean passesVectors(JavaMethod method) {
    return Stream.concat(
            method.getRawParameterTypes().stream(), Stream.of(method.getRawReturnType()))
        .anyMatch(
            type -> type.isAssignableTo(Vector.class) || type.isAssignableTo(VectorMask.class));
  }

  private static ClassModel parse(String className) throws IOException {
    String resource = className.replace('.', '/') + ".class";
    try (InputStream in = HotPathTest.class.getClassLoader().getResourceAsStream(resource)) {
      assertThat(in).as(resource).isNotNull();
      return ClassFile.of().parse(in.readAllBytes());
    }
  }

  private static boolean entersMonitor(MethodModel method) {
    return method.flags().has(AccessFlag.SYNCHRONIZED)
        || method
            .code()
            .map(
                code ->
                    code.elementStream()
                        .anyMatch(
                            element ->
                                element instanceof MonitorInstruction monitor
                                    && monitor.opcode() == Opcode.MONITORENTER))
            .orElse(false);
  }
}
