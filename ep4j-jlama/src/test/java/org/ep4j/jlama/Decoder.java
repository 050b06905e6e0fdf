package org.ep4j.jlama;

import com.github.tjake.jlama.model.AbstractModel;
import com.github.tjake.jlama.tensor.AbstractTensor;
import com.github.tjake.jlama.tensor.KvBufferCache;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Greedy decoding with Jlama's public methods, which keeps all logits. */
@SuppressWarnings({"rawtypes", "unchecked"}) // signatures of Jlama
record Decoder(List<Integer> tokens, List<List<Float>> logits) {
  /** Passes a prompt, then generates tokens. */
  static Decoder run(AbstractModel model, List<Integer> prompt, int count) {
    var result = new Decoder(new ArrayList<>(), new ArrayList<>());
    int[] ids = prompt.stream().mapToInt(token -> token).toArray();
    try (KvBufferCache cache = new KvBufferCache(model);
        KvBufferCache.KvBuffer memory = cache.getEphemeralKvBuffer()) {
      AbstractTensor rows = model.batchForward(ids, 0, memory);
      result.sample(model, rows.slice(ids.length - 1));
      for (int i = 1; i < count; i++) {
        int last = result.tokens.getLast();
        result.sample(model, model.forward(last, ids.length + i - 1, memory, Optional.empty()));
      }
    }
    return result;
  }

  private void sample(AbstractModel model, AbstractTensor row) {
    try (AbstractTensor scores = model.makeDenseTensor(1, TinyMixtral.VOCABULARY)) {
      tokens.add(model.sample(row, 0, 0, scores));
      List<Float> values = new ArrayList<>();
      for (int token = 0; token < TinyMixtral.VOCABULARY; token++) {
        values.add(scores.get(0, token));
      }
      logits.add(values);
    }
  }
}
