"""The peer of benchmarks/exported_pairs.py: loss and gradients of TRL's DPOTrainer on exported pairs.

python trl_gradients.py job.json
"""

import json
import sys
from pathlib import Path


def main(job_path: str) -> None:
    job = json.loads(Path(job_path).read_text())
    import datasets
    import torch
    import transformers
    import trl

    data = datasets.load_dataset("json", data_files=job["pairs"], cache_dir=job["folder"])["train"]
    settings = trl.DPOConfig(
        output_dir=job["folder"],
        per_device_train_batch_size=len(data),
        beta=job["beta"],
        max_length=None,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        disable_tqdm=True,
        model_init_kwargs={"dtype": "float32"},
    )
    reference = transformers.AutoModelForCausalLM.from_pretrained(job["reference"], dtype="float32")
    trainer = trl.DPOTrainer(
        model=job["policy"],
        ref_model=reference,
        args=settings,
        train_dataset=data,
        processing_class=transformers.AutoTokenizer.from_pretrained(job["policy"]),
    )
    trainer.model.eval()  # as dropout is off on both sides; the packaged agent has none
    (batch,) = trainer.get_train_dataloader()
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    result = {
        "loss": loss.item(),
        "gradients": {name: one.grad for name, one in trainer.model.named_parameters()},
        "pairs": len(data),
        "versions": ", ".join(f"{one.__name__} {one.__version__}" for one in (trl, transformers, torch)),
    }
    torch.save(result, Path(job["folder"]) / "result.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
