package org.ep4j.cuda.driver.compiler;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Needs NVRTC, but no GPU. */
class NvrtcTest {
  private static final byte[] ELF = {0x7f, 'E', 'L', 'F'};
  private static final Map<String, String> HEADERS =
      Map.of("deep/answer.cuh", "__device__ inline int answer() { return ANSWER; }\n");
  private static final String SOURCE =
      """
      #include "deep/answer.cuh"
      extern "C" __global__ void ask(int* out) { *out = answer(); }
      """;

  @BeforeEach
  void nvrtc() {
    Gpu.requireNvrtc();
  }

  @Test
  void theVersionAndTheArchitecturesAreKnown() {
    System.out.println(
        "NVRTC "
            + Nvrtc.version()
            + " in "
            + Nvrtc.find().library()
            + ": "
            + Nvrtc.architectures());
    assertThat(Nvrtc.version().major()).isGreaterThanOrEqualTo(12);
    assertThat(Nvrtc.architectures()).contains(80, 90);
  }

  @Test
  void aProgramWithHeadersInMemoryBecomesACubin() {
    Nvrtc.Result result = compile(SOURCE, "-DANSWER=42", Nvrtc.Output.CUBIN);
    assertThat(result.image()).startsWith(ELF);
    assertThat(result.log()).isEmpty();
  }

  @Test
  void assemblyShowsWhatWasDefined() {
    Nvrtc.Result result = compile(SOURCE, "-DANSWER=4711", Nvrtc.Output.PTX);
    assertThat(new String(result.image(), StandardCharsets.UTF_8))
        .contains(".entry ask")
        .contains("4711");
  }

  @Test
  void anErrorCarriesTheLogAndTheOptions() {
    assertThatThrownBy(() -> compile(SOURCE, "-DANSWER=nothing", Nvrtc.Output.CUBIN))
        .isInstanceOf(CudaException.class)
        .hasMessageContaining("nvrtcCompileProgram")
        .hasMessageContaining("\"nothing\" is undefined")
        .hasMessageContaining("-DANSWER=nothing");
  }

  @Test
  void unknownArchitectureIsAnError() {
    assertThatThrownBy(
            () ->
                Nvrtc.compile("x.cu", SOURCE, HEADERS, List.of("-arch=sm_11"), Nvrtc.Output.CUBIN))
        .isInstanceOf(CudaException.class)
        .hasMessageContaining("sm_11");
  }

  @Test
  void intermediateCodeIsLinkedIntoACubin() {
    assumeTrue(NvJitLink.find().found(), () -> NvJitLink.find().problem());
    System.out.println("nvJitLink " + NvJitLink.version() + " in " + NvJitLink.find().library());
    byte[] caller =
        lto(
            "extern __device__ int answer();\n"
                + "extern \"C\" __global__ void ask(int* out) {"
                + " *out = answer(); }");
    byte[] callee = lto("__device__ int answer() { return 42; }");
    try (NvJitLink link = NvJitLink.create(List.of("-arch=sm_90a", "-lto"))) {
      link.add(NvJitLink.Input.LTO_IR, caller, "caller");
      link.add(NvJitLink.Input.LTO_IR, callee, "callee");
      assertThat(link.link()).startsWith(ELF);
    }
    try (NvJitLink link = NvJitLink.create(List.of("-arch=sm_90a", "-lto"))) {
      link.add(NvJitLink.Input.LTO_IR, caller, "caller");
      assertThatThrownBy(link::link)
          .isInstanceOf(CudaException.class)
          .hasMessageContaining("nvJitLinkComplete")
          .hasMessageContaining("answer");
    }
  }

  @Test
  void aLinkIsClosedTwiceWithoutHarm() {
    assumeTrue(NvJitLink.find().found(), () -> NvJitLink.find().problem());
    NvJitLink link = NvJitLink.create(List.of("-arch=sm_90a"));
    link.close();
    link.close();
    assertThatThrownBy(link::link).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> NvJitLink.create(List.of("-no-such-option")))
        .isInstanceOf(CudaException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_CALL_FAILED.id())
        .hasMessageContaining("nvJitLinkCreate");
  }

  private static byte[] lto(String source) {
    return Nvrtc.compile(
            "part.cu",
            source,
            Map.of(),
            List.of("-arch=sm_90a", "-dlto", "-rdc=true"),
            Nvrtc.Output.LTO_IR)
        .image();
  }

  private static Nvrtc.Result compile(String source, String define, Nvrtc.Output output) {
    return Nvrtc.compile(
        "ask.cu",
        source,
        HEADERS,
        List.of(output == Nvrtc.Output.PTX ? "-arch=compute_90" : "-arch=sm_90a", define),
        output);
  }
}
