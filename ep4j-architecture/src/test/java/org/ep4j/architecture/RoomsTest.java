package org.ep4j.architecture;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Rule 1: arrows point down, and the core depends on the JDK alone. */
class RoomsTest {
  private static final String API = "org.ep4j";

  /** Packages of the API below {@code org.ep4j}; every room may use them. */
  private static final List<String> API_PARTS =
      Stream.of("config", "routing", "tensor", "execution", "error").map(RoomsTest::name).toList();

  /** Files that a reader can hold in mind. */
  private static final int MAX_FILES = 25;

  /** The package of {@code bench}: a file for each measurement and group of options. */
  private static final String LARGER = "/cli/bench";

  private static final String HOST = "org.ep4j.engine.host..";
  private static final String CUDA_ENGINE = "org.ep4j.cuda.engine..";

  /**
   * All packages below the applications, from top to bottom, each with the packages that it may use
   * beside the API; a package of the API may use what is listed alone. Names are relative to {@code
   * org.ep4j}.
   */
  static final Map<String, List<String>> ROOMS =
      table(
          """
          c: c.struct engine memory observe group
          c.struct: memory
          relocation: engine engine.world wire memory group
          micrometer: observe
          jlama: group
          moe: moe.gpu moe.cublas engine engine.host.kernel io
          moe.gpu: moe.cublas cuda.jit cuda.driver
          moe.cublas: cuda.driver.compiler cuda.driver.calls
          spark: group.rendezvous group
          wire.direct: wire wire.support memory group
          rdma.verbs: rdma.verbs.bindings rdma.verbs.ports wire wire.support memory observe group
          rdma.verbs.bindings: wire
          rdma.ucx: rdma.ucx.bindings wire wire.support memory group
          rdma.ucx.bindings: wire
          nvshmem: cuda.backend cuda.jit cuda.driver.compiler cuda.driver cuda.driver.calls \
          memory group
          nccl: nccl.gin wire.tcp cuda.backend cuda.jit cuda.internode.proxy wire wire.support \
          cuda.driver cuda.driver.calls memory group
          nccl.gin: cuda.backend cuda.driver memory group
          wire.tcp: wire.tcp.pipe wire wire.support memory group
          wire.tcp.pipe: wire group
          engine.host.buffer: engine.host.lowlatency engine.host.dispatch engine.host.combine \
          engine.host.context engine.host.internode engine.host.layout engine.host.kernel \
          engine.host.exec engine.throughput engine engine.world memory observe group
          engine.host.lowlatency: engine.host.context engine.host.internode engine.host.layout \
          engine.host.kernel engine.lowlatency engine engine.world memory observe
          engine.host.dispatch: engine.host.context engine.host.internode engine.host.layout \
          engine.host.exec wire engine.throughput engine engine.world memory observe
          engine.host.combine: engine.host.context engine.host.internode engine.host.layout \
          engine.host.kernel engine.host.exec engine.throughput engine engine.world memory
          engine.host.context: engine.host.internode engine.host.layout engine.host.exec \
          engine.throughput engine engine.world memory observe group
          engine.host.internode: engine.host.layout wire engine engine.world memory group
          engine.host.layout: engine.host.kernel engine.lowlatency engine engine.world memory
          engine.host.kernel: memory
          engine.host.exec: engine.throughput engine engine.world
          cuda.put: cuda.internode cuda.backend cuda.jit cuda.internode.proxy cuda.struct \
          cuda.driver engine engine.world memory group
          cuda.engine: cuda.engine.throughput cuda.engine.lowlatency cuda.engine.context \
          cuda.engine.failure cuda.engine.launch cuda.internode cuda.backend cuda.jit \
          cuda.struct cuda.driver cuda.driver.calls engine.lowlatency engine.throughput engine \
          engine.world memory observe group
          cuda.engine.throughput: cuda.engine.context cuda.engine.failure cuda.engine.launch \
          cuda.internode cuda.backend cuda.struct cuda.driver engine.throughput engine engine.world
          cuda.engine.lowlatency: cuda.engine.context cuda.engine.failure cuda.engine.launch \
          cuda.internode cuda.backend cuda.jit cuda.struct cuda.driver engine.lowlatency \
          engine engine.world memory observe
          cuda.engine.context: cuda.engine.failure cuda.engine.launch cuda.internode \
          cuda.backend cuda.struct cuda.driver cuda.driver.calls engine.throughput engine \
          engine.world memory observe group
          cuda.engine.failure: cuda.engine.launch cuda.internode cuda.struct cuda.driver \
          cuda.driver.calls engine engine.world memory observe group
          cuda.engine.launch: cuda.internode cuda.backend cuda.jit cuda.struct cuda.driver \
          engine engine.lowlatency
          cuda.internode: cuda.backend cuda.internode.proxy cuda.struct wire cuda.driver \
          cuda.driver.calls engine engine.world memory group
          cuda.backend.direct: cuda.backend cuda.driver cuda.driver.calls memory group
          cuda.backend: cuda.jit cuda.driver.compiler cuda.driver cuda.driver.calls memory \
          group
          cases: io verify
          io:
          plan.simulation: plan
          plan: engine verify
          bench.wire: rdma.verbs.ports bench wire group
          rdma.verbs.ports: wire wire.support group
          bench.proxy: bench cuda.probe cuda.internode.proxy wire cuda.driver memory
          bench: verify cuda.probe cuda.driver memory group
          verify:
          cuda.probe: cuda.jit cuda.internode.proxy cuda.struct cuda.driver memory
          cuda.jit: cuda.struct cuda.driver.compiler cuda.driver cuda.driver.calls engine \
          memory observe
          cuda.driver.compiler: cuda.driver.calls
          cuda.internode.proxy: cuda.struct wire cuda.driver memory
          cuda.struct:
          wire: wire.support memory observe group
          wire.support: wire group
          cuda.driver: cuda.driver.calls engine
          cuda.driver.calls:
          API: config routing tensor execution error engine observe group
          config: routing tensor error engine
          routing: tensor error balance
          tensor: error engine
          execution:
          error:
          balance:
          engine.lowlatency: engine
          engine.throughput: engine
          engine: engine.world memory observe group
          engine.world: memory group
          memory: group
          observe: group
          group: group.rendezvous group.protocol
          group.rendezvous: group group.protocol
          group.protocol: group
          """);

  /** Packages that also use libraries. */
  private static final Map<String, List<String>> LIBRARIES =
      Map.of(
          name("micrometer"),
          List.of("io.micrometer.."),
          name("jlama"),
          List.of("com.github.tjake..", "com.fasterxml.jackson..", "dev.langchain4j.."),
          name("moe"),
          List.of("com.fasterxml.jackson.."),
          name("plan"),
          List.of("org.hipparchus.."),
          name("spark"),
          List.of("org.apache.spark..", "scala.."));

  /**
   * Arrows that point up. {@code Group.join} and {@code ThreadRanks} start what implements the
   * interface beside them; {@code Wires} opens wires by a step of the support package.
   */
  private static final Map<String, List<String>> UPWARD =
      table(
          """
          wire.support: wire
          group.rendezvous: group
          group.protocol: group
          """);

  private static final String[] APPLICATIONS = {
    "org.ep4j.cli..", "org.ep4j.examples..", "org.ep4j.conformance..", "org.ep4j.benchmarks.."
  };

  @TestFactory
  Stream<DynamicTest> everyRoomUsesOnlyItsRooms() {
    return ROOMS.entrySet().stream()
        .map(
            room -> {
              String[] allowed =
                  Stream.of(
                          room.getValue().stream(),
                          Stream.of(room.getKey()),
                          LIBRARIES.getOrDefault(room.getKey(), List.of()).stream(),
                          API_PARTS.contains(room.getKey())
                              ? Stream.<String>empty()
                              : Stream.concat(Stream.of(API), API_PARTS.stream()),
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
                          .because(room.getKey() + " may use " + room.getValue())
                          .allowEmptyShould(false)
                          .check(Repository.CLASSES));
            });
  }

  @Test
  void arrowsPointDown() {
    List<String> above = new ArrayList<>();
    List<String> upward = new ArrayList<>();
    ROOMS.forEach(
        (room, uses) -> {
          above.add(room);
          for (String used : uses) {
            assertThat(ROOMS).as("rooms, for %s", room).containsKey(used);
            if (above.contains(used) && !UPWARD.getOrDefault(room, List.of()).contains(used)) {
              upward.add(room + " uses " + used);
            }
          }
        });
    assertThat(upward).as("arrows that point up").isEmpty();
  }

  @Test
  void everyPackageHasItsPlaceOnTheFloorPlan() {
    String[] rooms =
        Stream.concat(ROOMS.keySet().stream(), Arrays.stream(APPLICATIONS)).toArray(String[]::new);
    TreeSet<String> unlisted = new TreeSet<>();
    for (JavaClass type : Repository.CLASSES) {
      if (!JavaClass.Predicates.resideInAnyPackage(rooms).test(type)) {
        unlisted.add(type.getPackageName());
      }
    }
    assertThat(unlisted).as("packages that RoomsTest does not list").isEmpty();
  }

  /** Tests that share the package of what they test are not counted. */
  @Test
  void aReaderCanHoldEachPackageInMind() throws IOException {
    Map<String, Long> files = new TreeMap<>();
    try (Stream<Path> tree = Files.walk(Repository.repository())) {
      tree.filter(file -> file.toString().matches(".*/src/main/java/.*[.]java"))
          .forEach(file -> files.merge(String.valueOf(file.getParent()), 1L, Long::sum));
    }
    assertThat(files).isNotEmpty();
    assertThat(files.keySet()).as("the exempt package").anyMatch(name -> name.endsWith(LARGER));
    files.keySet().removeIf(name -> name.endsWith(LARGER));
    files.values().removeIf(count -> count <= MAX_FILES);
    assertThat(files).as("packages with more than %d files", MAX_FILES).isEmpty();
  }

  @Test
  void nothingKnowsTheApplicationsOnTop() {
    noClasses()
        .that()
        .resideInAnyPackage(ROOMS.keySet().toArray(String[]::new))
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(APPLICATIONS)
        .allowEmptyShould(false)
        .check(Repository.CLASSES);
  }

  @Test
  void applicationsReachEnginesThroughTheApi() {
    noClasses()
        .that()
        .resideInAnyPackage("org.ep4j.cli..", "org.ep4j.bench..", "org.ep4j.examples..")
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(HOST, CUDA_ENGINE)
        .allowEmptyShould(false)
        .check(Repository.CLASSES);
  }

  private static Map<String, List<String>> table(String text) {
    Map<String, List<String>> rooms = new LinkedHashMap<>();
    for (String line : text.lines().toList()) {
      int colon = line.indexOf(':');
      String uses = line.substring(colon + 1).strip();
      List<String> used =
          uses.isEmpty() ? List.of() : Stream.of(uses.split(" +")).map(RoomsTest::name).toList();
      rooms.computeIfAbsent(name(line.substring(0, colon)), room -> new ArrayList<>()).addAll(used);
    }
    return rooms;
  }

  private static String name(String room) {
    return room.equals("API") ? API : API + "." + room;
  }
}
