package org.ep4j.architecture;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Rule 1: dependencies point down, and the core depends on the JDK only. */
class RoomsTest {
  private static final String API = "org.ep4j";
  private static final String ENGINE = "org.ep4j.engine";
  private static final String HOST = "org.ep4j.engine.host..";
  private static final String WIRE = "org.ep4j.wire..";
  private static final String MEMORY = "org.ep4j.memory..";
  private static final String GROUP = "org.ep4j.group..";
  private static final String VERIFY = "org.ep4j.verify..";
  private static final String PLAN = "org.ep4j.plan..";
  private static final String OBSERVE = "org.ep4j.observe..";
  private static final String CASES = "org.ep4j.cases..";
  private static final String IO = "org.ep4j.io..";
  private static final String VERBS = "org.ep4j.rdma.verbs..";
  private static final String UCX = "org.ep4j.rdma.ucx..";
  private static final String NCCL = "org.ep4j.nccl..";
  private static final String NVSHMEM = "org.ep4j.nvshmem..";
  private static final String CUDA_ENGINE = "org.ep4j.cuda.engine..";
  private static final String CUDA_INTERNODE = "org.ep4j.cuda.internode..";
  private static final String CUDA_BACKEND = "org.ep4j.cuda.backend";
  private static final String CUDA_DIRECT = "org.ep4j.cuda.backend.direct..";
  private static final String CUDA_PUT = "org.ep4j.cuda.put..";
  private static final String CUDA_PROXY = "org.ep4j.cuda.internode.proxy..";
  private static final String CUDA_PROBE = "org.ep4j.cuda.probe..";
  private static final String CUDA_JIT = "org.ep4j.cuda.jit..";
  private static final String CUDA_DRIVER = "org.ep4j.cuda.driver..";

  /** The rooms from top to bottom, each with the rooms it may use. */
  private static final Map<String, List<String>> ROOMS = new LinkedHashMap<>();

  static {
    ROOMS.put(API, List.of(ENGINE, GROUP));
    ROOMS.put(ENGINE, List.of(API, MEMORY, GROUP));
    ROOMS.put(HOST, List.of(API, ENGINE, MEMORY, WIRE, GROUP, OBSERVE));
    // Wires of one host use symmetric memory; memory needs no wire.
    ROOMS.put(WIRE, List.of(API, MEMORY, GROUP));
    ROOMS.put(MEMORY, List.of(API, GROUP));
    ROOMS.put(GROUP, List.of(API));
    ROOMS.put(VERIFY, List.of(API));
    ROOMS.put(PLAN, List.of(API));
    ROOMS.put(OBSERVE, List.of(API));
    ROOMS.put(CASES, List.of(API, VERIFY, IO));
    ROOMS.put(IO, List.of(API));
    ROOMS.put(VERBS, List.of(API, WIRE, MEMORY, GROUP));
    ROOMS.put(UCX, List.of(API, WIRE, MEMORY, GROUP));
    // Uses only the thread cores of the proxy: each thread that posts for the proxy has one.
    ROOMS.put(
        NCCL, List.of(API, CUDA_BACKEND, CUDA_JIT, CUDA_DRIVER, CUDA_PROXY, MEMORY, WIRE, GROUP));
    ROOMS.put(NVSHMEM, List.of(API, CUDA_BACKEND, CUDA_JIT, CUDA_DRIVER, MEMORY, GROUP));
    ROOMS.put(
        CUDA_ENGINE,
        List.of(
            API,
            ENGINE,
            CUDA_BACKEND,
            CUDA_INTERNODE,
            CUDA_JIT,
            CUDA_DRIVER,
            MEMORY,
            WIRE,
            GROUP,
            OBSERVE));
    ROOMS.put(CUDA_DIRECT, List.of(API, CUDA_BACKEND, CUDA_DRIVER, MEMORY, GROUP));
    ROOMS.put(CUDA_BACKEND, List.of(API, CUDA_JIT, CUDA_DRIVER, MEMORY, GROUP));
    ROOMS.put(
        CUDA_PUT,
        List.of(
            API,
            ENGINE,
            CUDA_BACKEND,
            CUDA_INTERNODE,
            CUDA_JIT,
            CUDA_DRIVER,
            CUDA_PROXY,
            MEMORY,
            GROUP));
    ROOMS.put(CUDA_PROBE, List.of(API, CUDA_JIT, CUDA_DRIVER, MEMORY, WIRE, CUDA_PROXY));
    // Traffic that a backend carries itself needs no wire.
    ROOMS.put(
        CUDA_INTERNODE,
        List.of(API, ENGINE, CUDA_BACKEND, CUDA_DRIVER, CUDA_PROXY, MEMORY, WIRE, GROUP));
    ROOMS.put(CUDA_PROXY, List.of(API, CUDA_DRIVER, MEMORY, WIRE));
    ROOMS.put(CUDA_JIT, List.of(API, ENGINE, CUDA_DRIVER));
    ROOMS.put(CUDA_DRIVER, List.of(API, ENGINE));
  }

  private static final String[] APPLICATIONS = {
    "org.ep4j.cli..", "org.ep4j.examples..", "org.ep4j.conformance..", "org.ep4j.benchmarks.."
  };

  @TestFactory
  Stream<DynamicTest> everyRoomUsesOnlyTheRoomsBelowIt() {
    return ROOMS.entrySet().stream()
        .map(
            room -> {
              String[] allowed =
                  Stream.of(
                          room.getValue().stream(),
                          Stream.of(room.getKey()),
                          Arrays.stream(Repository.ALWAYS_ALLOWED))
                      .flatMap(names -> names)
                      .toArray(String[]::new);
              return DynamicTest.dynamicTest(
                  room.getKey(),
                  () ->
                      classes()
                          .that()
                          .resideInAPackage(room.getKey())
                          .should()
                          .onlyDependOnClassesThat()
                          .resideInAnyPackage(allowed)
                          .because(
                              "arrows point down; "
                                  + room.getKey()
                                  + " is above "
                                  + room.getValue())
                          .allowEmptyShould(true)
                          .check(Repository.CLASSES));
            });
  }

  @Test
  void everyPackageHasItsPlaceOnTheFloorPlan() {
    TreeSet<String> unlisted = new TreeSet<>();
    for (JavaClass type : Repository.CLASSES) {
      String[] rooms =
          Stream.concat(ROOMS.keySet().stream(), Arrays.stream(APPLICATIONS))
              .toArray(String[]::new);
      if (!JavaClass.Predicates.resideInAnyPackage(rooms).test(type)) {
        unlisted.add(type.getPackageName());
      }
    }
    assertThat(unlisted).as("packages that no room of RoomsTest holds").isEmpty();
  }

  @Test
  void nothingKnowsTheApplicationsOnTop() {
    noClasses()
        .that()
        .resideInAnyPackage(ROOMS.keySet().toArray(String[]::new))
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(APPLICATIONS)
        .check(Repository.CLASSES);
  }

  @Test
  void applicationsReachEnginesThroughTheApi() {
    noClasses()
        .that()
        .resideInAnyPackage("org.ep4j.cli..", "org.ep4j.examples..")
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(HOST, CUDA_ENGINE)
        .check(Repository.CLASSES);
  }
}
