package org.ep4j.cli.plan;

import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.plan.DrawnRouting;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.plan.RecordedRouting;
import org.ep4j.plan.Term;

/** Words of a plan for readers new to it. */
final class PlanWords {
  private PlanWords() {}

  /** The part of a machine that a term measures, as the subject of a sentence. */
  static String part(Term term) {
    return switch (term) {
      case NVLINK -> "NVLink";
      case NIC -> "the NIC";
      case SM -> "the SMs";
      case MEMORY -> "the memory of the GPU";
      case FILL -> "the fill of the pipeline";
      case FIXED -> "the fixed time of an operation";
      case INCAST -> "the number of peers (incast)";
    };
  }

  /** The time of a term that is the limit, as a sentence behind {@link #part}. */
  static String share(Term term, String time) {
    return switch (term) {
      case NVLINK, NIC, MEMORY -> "its part alone takes " + time;
      case SM -> "their part alone takes " + time;
      case FILL -> time + " pass until the first rows have arrived";
      case FIXED -> time + " that faster parts do not shorten";
      case INCAST -> time + " that grow with the number of peers, not with bytes";
    };
  }

  /** The routing in a sentence. */
  static String routing(PlanRequest request) {
    return switch (request.routing()) {
      case RecordedRouting recorded ->
          "Tokens choose experts as %d recorded tokens did.".formatted(recorded.tokens());
      case DrawnRouting drawn when drawn.groups() > 0 ->
          "Each token chooses experts of %d node%s at most, each equally likely."
              .formatted(drawn.groups(), drawn.groups() == 1 ? "" : "s");
      case DrawnRouting drawn ->
          switch (drawn.kind()) {
            case UNIFORM -> "Tokens choose each expert equally likely.";
            case ZIPF -> "The popularity of an expert falls as 1 / its place among them.";
            case HOT -> "Three choices of four go to the first eighth of the experts.";
          };
    };
  }

  /** What a gigabyte a second counts in this plan. */
  static String rate(PlanRequest request) {
    if (request.kind() == PlanKind.LL) {
      return "Gigabytes of rows a second that a rank sends, in the mean of the ranks: a row counts"
          + " once for each expert of its token, also where the expert is on the rank itself.";
    }
    return request.nodes() > 1
        ? "Gigabytes of rows a second of a rank, in the mean of the ranks: a row counts once for"
            + " each node that receives it, its own node included though nothing crosses for it."
            + " Published tables call that RDMA bandwidth."
        : "Gigabytes of rows a second that a rank receives, in the mean of the ranks, its own rows"
            + " included. Published tables call that NVLink bandwidth.";
  }

  /** A sentence for each word of the page of a plan. */
  static Map<String, String> glossary(PlanRequest request) {
    boolean lowLatency = request.kind() == PlanKind.LL;
    Map<String, String> words = new LinkedHashMap<>();
    words.put("rank", "A process with a GPU of its own. The ranks of a node reach it by NVLink.");
    words.put(
        "dispatch", "Sends the row of each token to the ranks that hold the experts it chose.");
    words.put(
        "combine",
        "Brings the rows of the experts back to the rank of the token and adds them. Rows are"
            + " BF16, two bytes a value.");
    words.put(
        "time",
        "What the kernels of an operation take on the slowest rank. A call takes call_us of the"
            + " machine more.");
    words.put("GB/s", rate(request) + " FP8 rows count with their scales.");
    words.put("limit", "The longest term of the time: to shorten the time, shorten it first.");
    words.put("NVLink", "Rows over the links between the GPUs of a node.");
    words.put("NIC", "Rows over the network cards between nodes.");
    if (!lowLatency) {
      words.put("SMs", "What the processors of the GPU that the operation may use spend on rows.");
    }
    words.put("memory", "Each received row is written to the memory of the GPU, and read once.");
    if (!lowLatency) {
      words.put("fill", "Until the first rows have passed the pipeline, whatever follows them.");
    }
    words.put("fixed", "What an operation takes without any row: start, counts, end.");
    words.put("incast", "What each further rank adds that a rank must hear from.");
    return words;
  }

  /** What a constant of a machine means. */
  static String meaning(ProfileConstant constant) {
    return switch (constant) {
      case RANKS_PER_NODE -> "GPUs that reach one another over NVLink";
      case SMS -> "processors of a GPU";
      case NVLINK_DISPATCH_GBPS -> "NVLink rate of rows that a dispatch pushes";
      case NVLINK_COMBINE_GBPS -> "NVLink rate of rows that a combine moves and adds";
      case NIC_GBPS -> "rate of one port of the NIC of a rank";
      case NIC_PORTS -> "ports of the NIC of a rank";
      case NIC_MMSGS -> "messages that the NIC of a rank sends";
      case HOP_US -> "time of a small message to another rank";
      case MEMORY_GBPS -> "rate of the memory of a GPU";
      case SM_ROW_US -> "what an SM spends on a row to a rank of its node, beside its bytes";
      case SM_GBPS -> "rate at which an SM dispatches the bytes of such rows";
      case SM_COMBINE_GBPS -> "rate at which an SM moves and adds the bytes of such rows";
      case SM_NODE_ROW_US -> "what an SM spends on a row that it hands to a node";
      case SM_NODE_GBPS -> "rate at which an SM moves the bytes of such rows";
      case KERNEL_US -> "fixed time of a high-throughput kernel";
      case PEER_US -> "what each other rank of a node adds to it";
      case CALL_US -> "what a whole call takes beside its kernels";
      case NCCL_US -> "what backend nccl adds to a high-throughput kernel between nodes";
      case LL_NVLINK_US -> "fixed time of a low-latency operation over NVLink";
      case LL_NVLINK_PEER_US -> "what each other rank of a node adds to it";
      case LL_NIC_US -> "fixed time of a low-latency operation over NICs";
      case LL_NIC_PEER_US -> "what each rank of other nodes adds to it";
    };
  }
}
