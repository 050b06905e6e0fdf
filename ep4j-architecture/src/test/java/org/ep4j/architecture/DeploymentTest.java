package org.ep4j.architecture;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;

/** The Dockerfile and the manifests of Kubernetes fit together, and to the code. */
class DeploymentTest {
  private static final Pattern VARIABLE = Pattern.compile("\\bEP4J_[A-Z0-9_]+");
  private static final Path MANIFESTS = Repository.repository().resolve("deploy/kubernetes");

  @Test
  void dockerfileStartsTheLauncherOfABundleWithoutRoot() throws IOException {
    Dockerfile file =
        Dockerfile.parse(Files.readString(Repository.repository().resolve("Dockerfile")));

    assertThat(Dockerfile.words(file.last("ENTRYPOINT"))).containsExactly("/opt/ep4j/ep4j");
    assertThat(file.last("COPY")).endsWith(" /opt/ep4j /opt/ep4j");
    assertThat(file.last("USER")).matches("[1-9][0-9]*:[1-9][0-9]*");
  }

  @Test
  void imageBuildSeesTheBundleThatTheDockerfileNames() throws IOException {
    Dockerfile file =
        Dockerfile.parse(Files.readString(Repository.repository().resolve("Dockerfile")));
    String bundle =
        file.instructions().stream()
            .map(Dockerfile.Instruction::arguments)
            .filter(arguments -> arguments.startsWith("BUNDLE="))
            .map(arguments -> arguments.substring("BUNDLE=".length()))
            .findFirst()
            .orElseThrow();

    assertThat(Files.readAllLines(Repository.repository().resolve(".dockerignore")))
        .containsExactly("*", "!" + bundle);
    assertThat(Files.readString(Repository.repository().resolve("Dockerfile")))
        .contains("./ep4j bundle --no-tests --output " + bundle + "\n");
    assertThat(bundle).endsWith(acceptedEnding());
  }

  /** Of the names that {@code tools/bundle} accepts. */
  private static String acceptedEnding() throws IOException {
    String script = Files.readString(Repository.repository().resolve("tools/bundle"));
    return Pattern.compile("\\[\\[ \\$output == \\*(\\S+) \\]\\]")
        .matcher(script)
        .results()
        .findFirst()
        .orElseThrow()
        .group(1);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "RUN true",
        "FROM a\nFRUM b",
        "FROM ${BASE}",
        "FROM a\nCOPY --from=b /x /y",
        "FROM a\nCOPY x",
        "FROM a\nADD ${B} /x",
        "FROM a\nCMD doctor",
        "FROM a\nRUN x \\"
      })
  void wrongDockerfilesAreRefused(String text) {
    assertThatThrownBy(() -> Dockerfile.parse(text)).isInstanceOf(RuntimeException.class);
  }

  @Test
  void everyManifestIsYamlOfAKindAndAName() throws IOException {
    for (Path file : files(MANIFESTS, ".yaml")) {
      Map<Object, Object> manifest = load(file);
      assertThat(manifest.keySet()).as("%s", file).contains("apiVersion", "kind");
      if (!"Kustomization".equals(manifest.get("kind"))) {
        assertThat(at(manifest, "metadata", "name")).as("%s", file).isEqualTo("ep4j");
      }
    }
  }

  @Test
  void everyFileOfAKustomizationIsThere() throws IOException {
    List<Path> named = new ArrayList<>();
    for (Path file : files(MANIFESTS, "kustomization.yaml")) {
      Map<Object, Object> kustomization = load(file);
      list(kustomization, "resources").forEach(path -> named.add(file.resolveSibling("" + path)));
      if (kustomization.containsKey("patches")) {
        for (Object patch : list(kustomization, "patches")) {
          named.add(file.resolveSibling("" + at(patch, "path")));
        }
      }
    }
    assertThat(named).hasSizeGreaterThan(4).allMatch(Files::exists);
  }

  @Test
  void everyVariableIsReadByTheCodeOrItsLauncher() throws IOException {
    TreeMap<String, Path> named = new TreeMap<>();
    List<Path> places = files(MANIFESTS, ".yaml");
    places.add(Repository.repository().resolve("Dockerfile"));
    for (Path file : places) {
      for (MatchResult variable : VARIABLE.matcher(Files.readString(file)).results().toList()) {
        named.put(variable.group(), file);
      }
    }

    assertThat(named)
        .containsKeys("EP4J_RANK", "EP4J_WORLD_SIZE", "EP4J_RENDEZVOUS", "EP4J_SECRET");
    named.keySet().removeAll(readVariables());
    assertThat(named).as("variables that nothing reads").isEmpty();
  }

  @Test
  void ranksMeetAtThePodOfRankZero() throws IOException {
    Map<Object, Object> service = load(MANIFESTS.resolve("base/service.yaml"));
    Map<Object, Object> job = load(MANIFESTS.resolve("base/job.yaml"));
    Object pod = at(job, "spec", "template", "spec");

    assertThat(at(service, "spec", "clusterIP")).isEqualTo("None");
    assertThat(at(job, "spec", "completionMode")).isEqualTo("Indexed");
    assertThat(at(pod, "subdomain")).isEqualTo(at(service, "metadata", "name"));
    assertThat(at(job, "spec", "template", "metadata", "labels"))
        .isEqualTo(at(service, "spec", "selector"));
    assertThat(at(variable(pod, "EP4J_RENDEZVOUS"), "value"))
        .isEqualTo(
            "%s-0.%s.$(NAMESPACE).svc.cluster.local:%s"
                .formatted(
                    at(job, "metadata", "name"),
                    at(pod, "subdomain"),
                    at(list(at(service, "spec"), "ports").getFirst(), "port")));
    assertThat(at(variable(pod, "EP4J_RANK"), "valueFrom", "fieldRef", "fieldPath"))
        .isEqualTo("metadata.annotations['batch.kubernetes.io/job-completion-index']");
    assertThat(variable(pod, "EP4J_SECRET"))
        .isEqualTo(
            Map.of(
                "name",
                "EP4J_SECRET",
                "valueFrom",
                Map.of("secretKeyRef", Map.of("name", "ep4j", "key", "secret"))));
  }

  @Test
  void worldSizeIsThePodsTimesTheirRanks() throws IOException {
    for (String variant : List.of("base", "gpu")) {
      Map<Object, Object> job = load(MANIFESTS.resolve(variant).resolve("job.yaml"));
      Object pod = at(job, "spec", "template", "spec");
      Object gpus = "1";
      if (variant.equals("gpu")) {
        gpus = at(container(pod), "resources", "limits", "nvidia.com/gpu");
        assertThat(at(variable(pod, "RANKS_PER_POD"), "value")).isEqualTo(gpus);
      }
      int pods = (Integer) at(job, "spec", "completions");
      assertThat(at(job, "spec", "parallelism")).isEqualTo(pods);
      assertThat(at(variable(pod, "EP4J_WORLD_SIZE"), "value"))
          .isEqualTo(Integer.toString(pods * Integer.parseInt("" + gpus)));
    }
  }

  @Test
  void sharedMemoryIsAVolumeOfMemoryWithASize() throws IOException {
    Object pod = at(load(MANIFESTS.resolve("base/job.yaml")), "spec", "template", "spec");
    Object mount = list(container(pod), "volumeMounts").getFirst();
    Object volume = list(pod, "volumes").getFirst();

    assertThat(at(mount, "mountPath")).isEqualTo("/dev/shm");
    assertThat(at(volume, "name")).isEqualTo(at(mount, "name"));
    assertThat(at(volume, "emptyDir", "medium")).isEqualTo("Memory");
    assertThat("" + at(volume, "emptyDir", "sizeLimit")).matches("[1-9][0-9]*[MG]i");
  }

  /** Variables that Java code names in a string, and those of the launcher of a bundle. */
  private static Set<String> readVariables() throws IOException {
    Set<String> variables = new TreeSet<>();
    Pattern literal = Pattern.compile("\"(EP4J_[A-Z0-9_]+)\"");
    try (Stream<Path> modules = Files.list(Repository.repository())) {
      for (Path sources : modules.map(m -> m.resolve("src/main/java")).toList()) {
        if (Files.isDirectory(sources)) {
          for (Path file : files(sources, ".java")) {
            literal
                .matcher(Files.readString(file))
                .results()
                .forEach(m -> variables.add(m.group(1)));
          }
        }
      }
    }
    String launcher = Files.readString(Repository.repository().resolve("tools/bundle-launcher"));
    VARIABLE.matcher(launcher).results().forEach(m -> variables.add(m.group()));
    assertThat(variables).hasSizeGreaterThan(30);
    return variables;
  }

  private static List<Path> files(Path directory, String ending) throws IOException {
    try (Stream<Path> tree = Files.walk(directory)) {
      List<Path> files = new ArrayList<>(tree.filter(f -> f.toString().endsWith(ending)).toList());
      assertThat(files).as("files below %s", directory).isNotEmpty();
      return files;
    }
  }

  private static Map<Object, Object> load(Path file) throws IOException {
    LoadSettings strict = LoadSettings.builder().setAllowDuplicateKeys(false).build();
    Object document = new Load(strict).loadFromString(Files.readString(file));
    assertThat(document).as("%s", file).isInstanceOf(Map.class);
    return new LinkedHashMap<>((Map<?, ?>) Objects.requireNonNull(document));
  }

  /** The value at a path of keys. */
  private static Object at(Object node, String... keys) {
    Object value = node;
    for (String key : keys) {
      assertThat(value).as(key).isInstanceOf(Map.class);
      value = Objects.requireNonNull(((Map<?, ?>) value).get(key), key);
    }
    return value;
  }

  private static List<?> list(Object node, String key) {
    return (List<?>) at(node, key);
  }

  private static Object container(Object pod) {
    return Objects.requireNonNull(list(pod, "containers").getFirst());
  }

  private static Object variable(Object pod, String name) {
    return list(container(pod), "env").stream()
        .filter(variable -> name.equals(at(Objects.requireNonNull(variable), "name")))
        .findFirst()
        .map(Objects::requireNonNull)
        .orElseThrow(() -> new AssertionError("no variable " + name));
  }
}
